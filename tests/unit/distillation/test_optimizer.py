"""Which weights Muon moves, and how far a step goes."""

from __future__ import annotations

import torch
from torch import nn

from paceline.foundation.distillation.optimizer import (
    ADAM_RATE,
    MUON_RATE,
    build_optimizers,
    descend,
)


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(5, 4)
        self.layer = nn.Linear(4, 4)
        self.lm_head = nn.Linear(4, 5, bias=False)


def test_muon_moves_hidden_matrices_and_adamw_the_rest() -> None:
    model = _Model()
    muon, adam = build_optimizers(model, rate_scale=0.5)
    assert [p.shape for p in muon.param_groups[0]["params"]] == [(4, 4)]
    assert len(adam.param_groups[0]["params"]) == 3
    assert muon.param_groups[0]["initial_lr"] == 0.5 * MUON_RATE
    assert adam.param_groups[0]["initial_lr"] == 0.5 * ADAM_RATE


def test_a_step_descends_and_forgets_its_gradient() -> None:
    torch.manual_seed(0)
    model = _Model()
    optimizers = build_optimizers(model)
    ids = torch.tensor([0, 1, 2, 3])

    def loss() -> torch.Tensor:
        logits = model.lm_head(model.layer(model.embed_tokens(ids)))
        return nn.functional.cross_entropy(logits, ids)

    before = loss()
    for _ in range(5):
        descend(model, optimizers, loss(), 1.0)
    assert loss() < before
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_rate_of_zero_moves_nothing() -> None:
    model = _Model()
    optimizers = build_optimizers(model)
    before = [parameter.clone() for parameter in model.parameters()]
    descend(model, optimizers, model.layer.weight.sum(), 0.0)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))

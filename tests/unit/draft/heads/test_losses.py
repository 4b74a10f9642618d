"""Losses over a part of the target's vocabulary."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.models.heads.losses import LOSSES


def test_what_the_head_cannot_draft_is_rejected() -> None:
    """The target's other tokens have 0.2: a perfect head is rejected at least as often."""
    probs = torch.tensor([[0.6, 0.2], [0.8, 0.0]])
    perfect = torch.tensor([[0.75, 0.25], [1.0, 1e-30]]).log()
    assert LOSSES["tv"](probs, perfect).tolist() == pytest.approx([0.2, 0.2])
    assert LOSSES["tv"](probs, torch.tensor([[0.0, 50.0]]).repeat(2, 1)).tolist() == pytest.approx(
        [0.8, 1.0]
    )


def test_the_cross_entropy_is_least_where_the_head_has_the_targets_proportions() -> None:
    probs = torch.tensor([[0.6, 0.2]])
    logits = torch.tensor([[0.3, -0.4]], requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(500):
        optimizer.zero_grad()
        LOSSES["forward-kl"](probs, logits).sum().backward()
        optimizer.step()
    assert logits.softmax(-1)[0].tolist() == pytest.approx([0.75, 0.25], abs=1e-4)

"""A head before its training."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from paceline.foundation.models.heads.folder import head_config_of
from paceline.foundation.models.heads.initial import even_inputs, initial_head, plain_inputs
from paceline.foundation.models.heads.states import aux_scales, states_of
from paceline.foundation.models.models import load_model
from paceline.foundation.models.values import Answer, Sampling
from unit.draft.conftest import TinyPair

TOKENS = [1, 4, 5, 11, 90]
ANSWERS = [
    Answer("a", "a", Sampling(0.0), (4, 9, 7), (10, 1, 1, 40, 1, 1, 1, 11), 7),
    Answer("b", "b", Sampling(0.0), (5, 8), (19, 1), 2),
]


@pytest.fixture(scope="module")
def target(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.float32, torch.device("cpu"))


def test_a_new_head_drafts_its_tokens_with_the_targets_output_layer(target: Any) -> None:
    """vLLM adds to each of the head's own ids 0, 1, … its entry of d2t."""
    config = head_config_of(target.config, len(TOKENS))
    head = initial_head(config, target, TOKENS, torch.ones(()), seed=0)
    assert head.d2t.tolist() == [1, 3, 3, 8, 86]
    assert head.tokens.tolist() == TOKENS
    for row, token in enumerate(TOKENS):
        assert torch.equal(head.lm_head.weight[row], target.lm_head.weight[token])
    assert torch.equal(head.norm.weight, target.model.norm.weight)


def test_a_head_learns_from_inputs_of_one_size_and_stays_the_same_function(
    target: Any,
) -> None:
    """What the first token keeps, a sink of attention, does not count for the size."""
    config = head_config_of(target.config, len(TOKENS))
    layers = config.aux_layers
    aux = [states_of(target, [answer], layers)[0].aux for answer in ANSWERS]
    scales = aux_scales(target, ANSWERS, layers)
    of_others = torch.cat([rows[1:] for rows in aux])
    assert (of_others / scales).square().mean(dim=0) == pytest.approx(torch.ones(len(scales)))
    first, plain = (
        initial_head(config, target, TOKENS, by, seed=0) for by in (scales, torch.ones(()))
    )
    torch.testing.assert_close(first.combine(scales * of_others), plain.combine(of_others))
    weight, combined = first.fc.weight.clone(), first.combine(of_others)
    even_inputs(first, scales)
    torch.testing.assert_close(first.combine(of_others), combined)
    first.combine(of_others).square().sum().backward()
    [gradient] = [p.grad for name, p in first.named_parameters() if "original" in name]
    first.fc.parametrizations.weight.original.data -= gradient
    plain_inputs(first)
    expected = weight - gradient / scales
    torch.testing.assert_close(first.fc.weight, expected)
    assert {name for name, _ in first.named_parameters()} == {
        name for name, _ in plain.named_parameters()
    }

"""Distributions by value, in the order in which vLLM applies top-k and top-p."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.models.sampling import draft_probs, draw_tokens, target_probs
from paceline.foundation.models.values import Sampling

LOGITS = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(1.0), [0.4, 0.3, 0.2, 0.1]),
        (Sampling(0.5), [16 / 30, 9 / 30, 4 / 30, 1 / 30]),
        (Sampling(1.0, top_k=2), [4 / 7, 3 / 7, 0, 0]),
        (Sampling(1.0, top_p=0.65), [4 / 7, 3 / 7, 0, 0]),
        (Sampling(1.0, top_p=0.75), [4 / 9, 3 / 9, 2 / 9, 0]),
        # Of the three tokens that top-k keeps, two reach the mass: 7 / 9 is above 0.75.
        (Sampling(1.0, top_k=3, top_p=0.75), [4 / 7, 3 / 7, 0, 0]),
    ],
)
def test_the_target_keeps_the_likeliest_tokens(sampling: Sampling, expected: list[float]) -> None:
    assert target_probs(LOGITS, sampling)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_draft_ignores_top_k_and_top_p() -> None:
    found = draft_probs(LOGITS, Sampling(1.0, top_k=1, top_p=0.1))
    assert found[0].tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=1e-6)


def test_a_greedy_draw_is_the_most_probable_token() -> None:
    rows = torch.cat((LOGITS, LOGITS.flip(1)))
    assert draw_tokens(rows, Sampling(0.0), torch.Generator()).tolist() == [0, 3]


def test_draws_follow_the_distribution() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = draw_tokens(LOGITS.expand(20_000, 4), Sampling(1.0, top_k=2), generator)
    counts = torch.bincount(drawn, minlength=4) / 20_000
    assert counts.tolist() == pytest.approx([4 / 7, 3 / 7, 0, 0], abs=0.02)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1.0, 0, 1.0), "temperature is -1"),
        ((float("nan"), 0, 1.0), "temperature is nan"),
        ((1.0, -1, 1.0), "top_k is -1"),
        ((1.0, 0, 0.0), "top_p is 0"),
    ],
)
def test_bad_sampling_is_refused(values: tuple[float, int, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(*values)

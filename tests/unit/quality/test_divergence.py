"""Divergences worked out from small distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.foundation.answer_quality.divergence import Scores, compare_scores


def scores(named: list[float], token: float, best: int = 0) -> Scores:
    """One token; probabilities of the named tokens and of the text's own."""
    return Scores(
        ids=np.arange(len(named), dtype=np.int32)[None],
        logprobs=np.log(np.array([named])),
        token_logprobs=np.log(np.array([token])),
        best=np.array([best], dtype=np.int32),
    )


def test_equal_distributions_do_not_diverge() -> None:
    one = scores([0.5, 0.3], 0.5)
    found = compare_scores(one, one)
    assert (found.kl_nats[0], found.loss_nats[0], found.agrees[0]) == (0.0, 0.0, 1.0)


def test_unnamed_tokens_are_one_cell() -> None:
    """KL of (0.5, 0.3, 0.2) and (0.25, 0.3, 0.45)."""
    found = compare_scores(scores([0.5, 0.3], 0.5), scores([0.25, 0.3], 0.25, best=1))
    expected = 0.5 * math.log(2) + 0.2 * math.log(0.2 / 0.45)
    assert found.kl_nats[0] == pytest.approx(expected, rel=1e-5)
    assert found.loss_nats[0] == pytest.approx(math.log(2))
    assert found.agrees[0] == 0.0


def test_a_token_that_the_candidate_lacks_diverges_much_and_stays_finite() -> None:
    with np.errstate(divide="ignore"):
        lacking = scores([0.0, 1.0], 1.0)
    found = compare_scores(scores([0.5, 0.5], 0.5), lacking)
    assert 5 < found.kl_nats[0] < 20
    assert not lacking.is_finite

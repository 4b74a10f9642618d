"""Greedy tokens: near-ties are told apart from wrong ones."""

from __future__ import annotations

import pytest

from paceline.workbench.audit.statistics.greedy import (
    NEAR_TIE_NATS,
    Deviation,
    first_difference,
    judge_greedy,
    number_format,
)


def test_greedy_tells_ties_from_wrong_tokens() -> None:
    """Argmax; 0.0005 nats below it; 1 nat below it."""
    verdict = judge_greedy(
        [1, 2, 3],
        [{1: -0.1, 5: -3.0}, {2: -0.5005, 5: -0.5}, {3: -1.5, 5: -0.5}],
        near_tie_nats=1e-3,
    )
    assert verdict.near_ties == (Deviation(1, 2, 5, pytest.approx(0.0005)),)
    assert verdict.wrong == (Deviation(2, 3, 5, pytest.approx(1.0)),)
    assert not verdict.is_lossless


def test_a_token_that_is_not_named_is_wrong_however_close_the_named_ones_are() -> None:
    verdict = judge_greedy([9], [{1: -0.5, 2: -0.5}], near_tie_nats=0.25)
    assert verdict.wrong == (Deviation(0, 9, 1, 0.0),)


def test_greedy_needs_a_position_for_every_token() -> None:
    """Two tokens, one position."""
    with pytest.raises(ValueError, match="2 tokens but 1 positions"):
        judge_greedy([1, 2], [{1: -0.1}], near_tie_nats=0.0)


def test_the_first_difference_ignores_what_one_answer_has_more() -> None:
    assert first_difference([1, 2, 3], [1, 5, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) is None


@pytest.mark.parametrize(
    ("noise", "expected"),
    [(0.0, "float32"), (5e-5, "float32"), (4e-3, "float16"), (0.04, "bfloat16")],
)
def test_the_noise_names_the_number_format(noise: float, expected: str) -> None:
    assert number_format(noise) == expected
    assert expected in NEAR_TIE_NATS

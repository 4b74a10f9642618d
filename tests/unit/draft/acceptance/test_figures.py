"""Figures and intervals from counts with known answers."""

from __future__ import annotations

import pytest

from paceline.foundation.models.acceptance import (
    DraftCounts,
    PromptCounts,
    estimate_difference,
    estimate_figures,
)
from paceline.foundation.models.values import DraftError, Sampling

GREEDY = Sampling(0.0)


def prompt(
    key: int, drafts: float, *accepted: float, token_sum: float = 3, tokens: int = 4
) -> PromptCounts:
    reached = (drafts, *accepted[:-1])
    return PromptCounts(
        str(key), str(key), GREEDY, DraftCounts(drafts, accepted, reached, token_sum, tokens)
    )


def test_figures_are_ratios_of_the_sums() -> None:
    """10 + 30 drafts of two tokens; 20 and 10 are accepted."""
    counts = [prompt(0, 10, 8, 2), prompt(1, 30, 12, 8)]
    counts += [prompt(key, 0, 0, 0) for key in range(2, 6)]
    figures = estimate_figures(counts)
    assert figures.acceptance_rate.value == pytest.approx(30 / 80)
    assert figures.acceptance_length.value == pytest.approx(1.75)
    assert [e.value for e in figures.accepted_per_position_fraction] == [0.5, 0.25]
    assert [e and e.value for e in figures.conditional_per_position] == [0.5, 0.5]
    assert figures.token_acceptance.value == pytest.approx(0.75)


def test_equal_prompts_have_no_spread_and_different_ones_do() -> None:
    same = estimate_figures([prompt(key, 10, 5, 2) for key in range(20)]).acceptance_rate
    assert (same.low, same.value, same.high) == pytest.approx((0.35, 0.35, 0.35))
    mixed = [prompt(key, 10, *((9, 9) if key % 2 else (1, 0))) for key in range(20)]
    spread = estimate_figures(mixed).acceptance_rate
    assert spread.value == pytest.approx(0.475)
    assert spread.low < 0.4
    assert spread.high > 0.55


def test_answers_of_one_prompt_are_drawn_together() -> None:
    """Twenty answers to each of five prompts carry no more than five prompts."""
    few = [prompt(key, 10, *((9, 9) if key < 2 else (1, 0))) for key in range(5)]
    once, often = estimate_figures(few), estimate_figures(few * 20)
    assert often.acceptance_rate.low == pytest.approx(once.acceptance_rate.low)
    assert often.acceptance_rate.high == pytest.approx(once.acceptance_rate.high)


def test_a_difference_is_paired_by_prompt() -> None:
    """The prompts differ widely, and the candidate has one accepted token more on each."""
    present = [prompt(key, 10, key / 2, 0) for key in range(20)]
    candidate = [prompt(key, 10, key / 2 + 1, 0) for key in range(20)]
    difference = estimate_difference(candidate, present).acceptance_rate
    assert (difference.low, difference.high) == pytest.approx((0.05, 0.05))
    alone = estimate_figures(present).acceptance_rate
    assert alone.high - alone.low > 0.1


def test_different_prompts_are_not_compared() -> None:
    with pytest.raises(ValueError, match="different prompts"):
        estimate_difference(
            [prompt(key, 1, 1) for key in range(5)], [prompt(key, 1, 1) for key in range(6)]
        )


def test_a_position_that_no_draft_reaches_has_no_conditional_acceptance() -> None:
    figures = estimate_figures([prompt(key, 10, 0, 0) for key in range(6)])
    assert figures.conditional_per_position[1] is None
    assert figures.accepted_per_position_fraction[1].value == 0


def test_too_few_prompts_are_refused() -> None:
    with pytest.raises(DraftError, match=r"4 prompts .* at least 5 are needed"):
        estimate_figures([prompt(key, 1, 1) for key in range(4)])

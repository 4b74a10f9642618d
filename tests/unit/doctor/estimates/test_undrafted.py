"""The gain computed from step times, against engines whose gain is known."""

from __future__ import annotations

import random

import pytest

from paceline.operations.doctor.estimates.interval import Interval
from paceline.operations.doctor.estimates.undrafted import (
    HOW_FROM_MIXED_BATCHES,
    AnswerTime,
    StepRound,
    StepTimes,
    StepTotals,
    bounds_from_end,
    bounds_from_mixed_batches,
    infer_gain,
)

# Milliseconds of a step of the bundled pair with 8 draft tokens and 4 requests: with drafts, and
# without. Each context of 2,000 tokens instead of 200 adds the third.
DRAFTED, UNDRAFTED, LONG = 18.0, 3.2, 0.4
NUM_REQUESTS = 4
TOKENS_PER_STEP = 2.5
PROMPTS = 190.0
"""The time of a request that is spent on prompts, its own and others'."""
ANSWER = 64.0


def _rounds(
    extra: float, noise: float = 0.0, num_rounds: int = 40, tokens_per_step: float = TOKENS_PER_STEP
) -> list[StepRound]:
    """With an extra of the first step after a prompt. Each time has noise of its own."""
    answer_ms, _ = _truth(tokens_per_step)
    source = random.Random(1)

    def seconds(ms: float) -> float:
        return ms / 1e3 * source.lognormvariate(0.0, noise)

    def totals(num_at_end: int) -> StepTotals:
        step = UNDRAFTED + num_at_end * LONG
        return StepTotals(seconds(3 * step + extra), 3, seconds(6 * step + extra), 6)

    rounds = []
    for _ in range(num_rounds):
        bounds = bounds_from_mixed_batches(totals(1), totals(NUM_REQUESTS), 4)
        answer = AnswerTime(seconds(answer_ms), ANSWER)
        rounds.append(StepRound(StepTimes(seconds(DRAFTED), *bounds), answer))
    return rounds


def _truth(tokens_per_step: float) -> tuple[float, float]:
    """Milliseconds of an answer with drafts, and the gain."""
    drafted = PROMPTS + ((ANSWER - 1) / tokens_per_step + 2) * DRAFTED
    undrafted = PROMPTS + (ANSWER + 1) * UNDRAFTED
    return drafted, undrafted / drafted


@pytest.mark.parametrize("extra", [0.0, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_loss_is_within_a_fifth_of_the_truth(extra: float, noise: float) -> None:
    _, truth = _truth(TOKENS_PER_STEP)
    gain = infer_gain(_rounds(extra, noise), Interval(2.4, 2.6), 4, HOW_FROM_MIXED_BATCHES)
    assert gain.low < truth < gain.high < 1
    assert 1 - gain.value == pytest.approx(1 - truth, rel=0.2)
    assert (gain.num_pairs, gain.concurrency, gain.is_estimated) == (40, 4, True)


def test_drafts_that_pay_have_a_gain_above_1() -> None:
    """Eight tokens a step."""
    _, truth = _truth(8.0)
    rounds = _rounds(3.0, tokens_per_step=8.0)
    gain = infer_gain(rounds, Interval(7.9, 8.1), 4, HOW_FROM_MIXED_BATCHES)
    assert truth > 1
    assert gain.low < truth < gain.high


def test_an_answer_shorter_than_its_steps_leaves_no_prompts() -> None:
    """The quotient of the steps alone is the gain."""
    times = StepTimes(0.018, 0.0032, 0.0032)
    rounds = [StepRound(times, AnswerTime(1e-3, ANSWER))] * 6
    gain = infer_gain(rounds, Interval(2.5, 2.5), 4, HOW_FROM_MIXED_BATCHES)
    assert gain.value == pytest.approx(65 * 3.2 / ((63 / 2.5 + 2) * 18))
    assert (gain.step_ms, gain.undrafted_step_ms) == (18, (3.2, 3.2))


def test_a_request_alone_waits_for_no_step_of_others() -> None:
    times = StepTimes(0.018, 0.0032, 0.0032)
    rounds = [StepRound(times, AnswerTime(1e-3, ANSWER))] * 6
    gain = infer_gain(rounds, Interval(2.5, 2.5), 1, HOW_FROM_MIXED_BATCHES)
    assert gain.value == pytest.approx(64 * 3.2 / ((63 / 2.5 + 1) * 18))


def test_rounds_beside_one_piece_of_the_load_share_its_error() -> None:
    """Pieces differ by a fifth: 12 rounds with one piece each know more than three with 4 each."""
    source = random.Random(2)
    times = StepTimes(0.018, 0.0032, 0.0032)
    pieces = [AnswerTime(0.7 * source.lognormvariate(0.0, 0.2), ANSWER) for _ in range(12)]
    apart = [StepRound(times, piece) for piece in pieces]
    shared = [StepRound(times, piece) for piece in pieces[:3] for _ in range(4)]
    (low, high), (shared_low, shared_high) = (
        (gain.low, gain.high)
        for gain in (infer_gain(one, Interval(2.5, 2.5), 4, "x") for one in (apart, shared))
    )
    assert shared_high - shared_low > high - low


def test_the_error_of_one_load_for_all_rounds_widens_the_interval() -> None:
    times = StepTimes(0.018, 0.0032, 0.0032)
    exact, uncertain = (
        infer_gain([StepRound(times, answer)] * 6, Interval(2.5, 2.5), 4, HOW_FROM_MIXED_BATCHES)
        for answer in (AnswerTime(0.7, ANSWER), AnswerTime(0.7, ANSWER, 0.05))
    )
    assert exact.high - exact.low == pytest.approx(0)
    assert uncertain.low < exact.low <= exact.high < uncertain.high


def test_noisy_rounds_widen_the_interval() -> None:
    quiet, noisy = (
        infer_gain(_rounds(3.0, noise), Interval(2.4, 2.6), 4, HOW_FROM_MIXED_BATCHES)
        for noise in (0.0, 0.3)
    )
    assert noisy.low < quiet.low
    assert noisy.high > quiet.high


def test_noise_never_makes_a_gain_negative() -> None:
    shorter = StepTotals(few_s=0.5, num_few=3, many_s=0.3, num_many=6)
    longer = StepTotals(few_s=0.1, num_few=3, many_s=0.9, num_many=6)
    for one, all_of_them in ((shorter, longer), (longer, shorter), (shorter, shorter)):
        times = StepTimes(0.5, *bounds_from_mixed_batches(one, all_of_them, 4))
        rounds = [StepRound(times, AnswerTime(0.5, 1.0))] * 6
        gain = infer_gain(rounds, Interval(1.0, 1.1), 4, HOW_FROM_MIXED_BATCHES)
        assert 0 < gain.low <= gain.value <= gain.high


def test_a_step_at_the_end_of_the_context_bounds_shorter_ones() -> None:
    """5 ms and 1 ms per 100 tokens: 15 ms after 1,000 tokens, 7 ms after 200."""
    lowest, highest = bounds_from_end(0.015 + 0.002, 0.002, 0.2)
    assert (lowest, highest) == pytest.approx((0.003, 0.015))
    assert lowest < 0.007 < highest

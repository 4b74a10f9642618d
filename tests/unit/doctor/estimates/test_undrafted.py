"""The gain computed from step times, against engines whose gain is known."""

from __future__ import annotations

import random

import pytest

from paceline.doctor.estimates.interval import Interval
from paceline.doctor.estimates.undrafted import StepRound, infer_gain

# Milliseconds of CPU time of the bundled pair with 8 draft tokens and 4 requests on one thread:
# a step with drafts after 150 tokens of context, one without, and both after 2,000 tokens.
DRAFTED, UNDRAFTED, DRAFTED_FULL, UNDRAFTED_FULL = 27.4, 4.9, 45.8, 6.7
TOKENS_PER_STEP = 2.5
PROMPTS = 3.0
"""Of each token: the time of a request that is spent on prompts."""


def _rounds(extra: float, noise: float = 0.0, num_rounds: int = 12) -> list[StepRound]:
    """With an extra of the first step after a prompt."""
    source = random.Random(1)

    def seconds(ms: float) -> float:
        return ms / 1e3 * source.lognormvariate(0.0, noise)

    return [
        StepRound(
            steady_s=seconds(DRAFTED),
            short_s=seconds(DRAFTED + extra),
            full_s=seconds(DRAFTED_FULL + extra),
            end_s=seconds(UNDRAFTED_FULL + extra),
        )
        for _ in range(num_rounds)
    ]


def _truth(tokens_per_step: float) -> tuple[float, float]:
    """Tokens/s of four requests with drafts, and the gain."""
    drafted, undrafted = PROMPTS + DRAFTED / tokens_per_step, PROMPTS + UNDRAFTED
    return 4e3 / drafted, undrafted / drafted


@pytest.mark.parametrize("extra", [0.0, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_loss_is_within_a_fifth_of_the_truth(extra: float, noise: float) -> None:
    rate, truth = _truth(TOKENS_PER_STEP)
    gain = infer_gain(_rounds(extra, noise), Interval(2.4, 2.6), 4, rate)
    assert gain.low < truth < gain.high < 1
    assert 1 - gain.value == pytest.approx(1 - truth, rel=0.2)
    assert (gain.num_pairs, gain.concurrency, gain.is_estimated) == (12, 4, True)


def test_drafts_that_pay_have_a_gain_above_1() -> None:
    """Seven tokens a step: 6.9 ms a token instead of 7.9."""
    rate, truth = _truth(7.0)
    gain = infer_gain(_rounds(3.0), Interval(6.9, 7.1), 4, rate)
    assert truth > 1
    assert gain.low < truth < gain.high


def test_noisy_rounds_widen_the_interval() -> None:
    rate, _ = _truth(TOKENS_PER_STEP)
    quiet, noisy = (
        infer_gain(_rounds(3.0, noise), Interval(2.4, 2.6), 4, rate) for noise in (0.0, 0.3)
    )
    assert noisy.low < quiet.low
    assert noisy.high > quiet.high


def test_noise_never_makes_a_gain_negative() -> None:
    rounds = [StepRound(steady_s=0.5, short_s=0.9, full_s=0.3, end_s=0.1)] * 6
    gain = infer_gain(rounds, Interval(1.0, 1.1), 4, 8.0)
    assert 0 < gain.low <= gain.value <= gain.high

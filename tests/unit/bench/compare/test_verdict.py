"""The verdict follows from the intervals, and a difference is not believed if A differs from A."""

from __future__ import annotations

import math
import random

import pytest

from paceline.workbench.bench.compare.contrasts import Figure, Round
from paceline.workbench.bench.compare.verdict import Verdict, judge
from unit.bench.compare.rounds import make_round

PRIMARY = Figure.OUTPUT_TOKENS_PER_S


def noisy_rounds(
    gain: float, noise: float, *, num_rounds: int = 20, aa_gain: float = 0.0, seed: int = 1
) -> list[Round]:
    """ABBA rounds in which B is faster by `gain`, and A's later block by `aa_gain`."""
    rng = random.Random(seed)
    rounds = []
    for index in range(num_rounds):
        a1, b1, b2, a2 = (100 * math.exp(rng.gauss(0, noise)) for _ in range(4))
        rates = [a1, b1 * (1 + gain), b2 * (1 + gain), a2 * (1 + aa_gain)]
        rounds.append(make_round(rates, index=index))
    return rounds


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(0.1, Verdict.FASTER), (-0.1, Verdict.SLOWER), (0.0, Verdict.NO_DIFFERENCE)],
)
def test_the_verdict_on_clear_cases(gain: float, verdict: Verdict) -> None:
    judgement = judge(noisy_rounds(gain, 0.02), PRIMARY, margin=0.05, error=0.01)
    assert judgement.verdict is verdict
    estimate = judgement.difference[PRIMARY]
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < gain < estimate.high


def test_a_lower_latency_is_faster() -> None:
    judgement = judge(noisy_rounds(0.1, 0.01), Figure.TPOT_MS, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.FASTER
    relative = judgement.difference[Figure.TPOT_MS].relative
    assert relative == pytest.approx(1 / 1.1 - 1, abs=0.01)


def test_wide_intervals_leave_it_undecided() -> None:
    judgement = judge(noisy_rounds(0.0, 0.3), PRIMARY, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "reaches past the margin of 3 %" in judgement.reason


def test_a_difference_is_not_believed_if_a_differs_from_itself() -> None:
    """B is 10 % faster than A's mean; but A's second block is 20 % faster than its first."""
    rounds = noisy_rounds(0.2, 0.005, aa_gain=0.2)
    judgement = judge(rounds, PRIMARY, margin=0.03, error=0.01)
    assert judgement.difference[PRIMARY].excludes_zero()
    assert judgement.verdict is Verdict.UNDECIDED
    assert "A differs from itself" in judgement.reason


def test_few_rounds_have_no_interval() -> None:
    judgement = judge(noisy_rounds(0.1, 0.01, num_rounds=5), PRIMARY, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "5 rounds are too few" in judgement.reason
    assert judgement.difference[PRIMARY].relative == pytest.approx(0.1, abs=0.02)


def test_rounds_with_failed_requests_are_left_out_up_to_a_tenth() -> None:
    rounds = noisy_rounds(0.1, 0.01)
    failed = make_round([1, 900, 900, 1], num_errors=2)
    judgement = judge([*rounds, failed], PRIMARY, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.FASTER
    assert judgement.num_failed_rounds == 1
    assert judgement.difference[PRIMARY].relative == pytest.approx(0.1, abs=0.01)
    judgement = judge([*rounds, failed, failed, failed], PRIMARY, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "requests failed in 3 of 23 rounds" in judgement.reason


def test_an_unknown_figure_leaves_it_undecided() -> None:
    judgement = judge([make_round([None] * 4)] * 12, PRIMARY, margin=0.03, error=0.01)
    assert judgement.verdict is Verdict.UNDECIDED
    assert "output tokens/s is unknown" in judgement.reason

"""Bootstrap intervals: what they are drawn from, and that they cover the truth."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.bootstrap import MIN_UNITS, bootstrap_figures, expanded_levels
from paceline.foundation.results.slo import Slo
from unit.bench.results.records import record, steady


def noisy_repeat(rng: np.random.Generator, repeat: int) -> list[RequestRecord]:
    """20 requests, one after the other; their latency shares a factor around 1 s."""
    factor = rng.normal(1.0, 0.1)
    return [
        record(
            index=i,
            scheduled_s=i * factor,
            chunk_times_s=(i * factor + factor / 2, (i + 1) * factor),
            finished_s=(i + 1) * factor,
            output_tokens=10,
            repeat=repeat,
        )
        for i in range(20)
    ]


def test_five_repeats_are_drawn_whole() -> None:
    rng = np.random.default_rng(1)
    intervals = bootstrap_figures([noisy_repeat(rng, n) for n in range(5)], None)
    assert {(i.units, i.num_units) for i in intervals.values()} == {("repeats", 5)}
    assert set(intervals) == {
        "output_tokens_per_s",
        "requests_per_s",
        *(f"{name}.p{level}" for name in ("ttft_ms", "tpot_ms") for level in (50, 90, 99)),
    }


def test_intervals_over_repeats_cover_the_truth() -> None:
    """Each repeat's TTFT is 500 ms times a factor that varies by 10 %, the same for its requests.

    The median over all repeats is 500 ms; of 100 intervals 95 should hold it. Intervals that took
    the requests for independent would hold it in about 40.
    """
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(100):
        interval = bootstrap_figures([noisy_repeat(rng, n) for n in range(8)], None)["ttft_ms.p50"]
        covered += interval.low <= 500.0 <= interval.high
    assert covered >= 88


def test_few_repeats_are_cut_into_blocks() -> None:
    intervals = bootstrap_figures([steady(60), steady(60, repeat=1)], None)
    rate = intervals["output_tokens_per_s"]
    assert (rate.units, rate.num_units) == ("blocks", 20)
    assert (rate.low, rate.high) == pytest.approx((720 / 119.5, 720 / 119.5))


def test_blocks_are_no_shorter_than_a_typical_request() -> None:
    """120 s of requests that take 15 s each: at most 8 blocks."""
    intervals = bootstrap_figures([steady(106, ttft_s=1.0, e2e_s=15.0)], None)
    assert intervals["requests_per_s"].num_units == 8


def test_a_run_that_is_too_short_has_no_intervals() -> None:
    assert bootstrap_figures([steady(2 * MIN_UNITS - 1)], None) == {}
    assert bootstrap_figures([], None) == {}
    assert bootstrap_figures([[]], None) == {}


def test_equal_blocks_have_an_interval_of_no_width() -> None:
    """39.75 s in 20 blocks of 1.9875 s, in each of which two answers of 6 tokens arrive."""
    rate = bootstrap_figures([steady(40)], None)["output_tokens_per_s"]
    assert (rate.low, rate.high) == pytest.approx((12 / 1.9875, 12 / 1.9875))


def test_goodput_has_an_interval_when_there_is_an_objective() -> None:
    interval = bootstrap_figures([steady(40)], Slo(ttft_ms=300))["goodput.requests_per_s"]
    assert (interval.low, interval.high) == pytest.approx((40 / 39.75, 40 / 39.75))


def test_levels_are_expanded_for_few_units() -> None:
    """n = 5: Phi(-sqrt(5 / 4) * 2.776) = Phi(-3.1037); many units: about 2.5 %."""
    low, high = expanded_levels(5)
    assert low == pytest.approx(0.000956, rel=0.01)
    assert high == pytest.approx(1 - low)
    assert expanded_levels(1000)[0] == pytest.approx(0.025, rel=0.02)


def test_goodput_that_cannot_be_known_has_no_interval() -> None:
    records = [
        *steady(40),
        record(40, scheduled_s=10.0, chunk_times_s=(10.5,), finished_s=10.6, output_tokens=None),
    ]
    assert "goodput.requests_per_s" not in bootstrap_figures([records], Slo(tpot_ms=300))
    assert "goodput.requests_per_s" in bootstrap_figures([records], Slo(ttft_ms=300))

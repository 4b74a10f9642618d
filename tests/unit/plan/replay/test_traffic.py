"""The load of a replay is drawn from the whole recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from paceline.foundation.planning.values import PlanError
from paceline.foundation.recording.records import RequestRecord
from paceline.testing.policy_simulator.traffic.phases import Phase
from paceline.workbench.plan.replay.acceptance import fit_categories
from paceline.workbench.plan.replay.traffic import WARM_UP_FRACTION, make_phases
from paceline.workbench.plan.replay.values import ConstantConcurrency, RecordedLoad
from unit.recording.lines import request


def phases(
    requests: Sequence[RequestRecord],
    *,
    recorded_s: float,
    seconds: float,
    seed: int = 1,
    factor: float = 1.0,
) -> tuple[Phase, ...]:
    return make_phases(
        requests,
        RecordedLoad(factor),
        fit_categories({}, 1),
        recorded_s=recorded_s,
        seconds=seconds,
        looks_ngrams_up=False,
        random=np.random.default_rng(seed),
    )


def times_s(phase: Phase) -> list[float]:
    return [named.arrived_s for named in phase.requests]


def test_an_hour_is_replayed_from_all_of_it() -> None:
    """One request per second in the first half and three in the second: two on average."""
    slow = [second + 0.5 for second in range(1800)]
    fast = [1800.0 + number / 3.0 for number in range(5400)]
    recorded = [request(arrived_s=time_s) for time_s in slow + fast]
    counts = [
        len(phases(recorded, recorded_s=3600.0, seconds=60.0, seed=seed)[-1].requests)
        for seed in range(60)
    ]
    assert {60, 180} <= {round(count, -1) for count in counts}
    assert np.mean(counts) == pytest.approx(120.0, abs=25.0)


def test_replicates_have_arrivals_of_their_own_also_of_a_short_recording() -> None:
    recorded = [request(arrived_s=float(number**2)) for number in range(1, 6)]
    first, second = (
        times_s(phases(recorded, recorded_s=30.0, seconds=60.0, seed=seed)[-1]) for seed in (1, 2)
    )
    assert len(first) == len(second) == 5
    assert first != second


def test_requests_from_before_the_recording_do_not_arrive() -> None:
    """Some had output by then, and some waited."""
    recorded = [request(arrived_s=0.0, under_way=number < 20) for number in range(30)]
    recorded += [request(arrived_s=10.0 * number) for number in range(1, 5)]
    last = phases(recorded, recorded_s=50.0, seconds=60.0)[-1]
    assert len(last.requests) == 4


def test_the_arrivals_before_the_window_warm_the_engine_up() -> None:
    """At 10 requests per second, twice as fast: 20 per second, in the warm-up too."""
    recorded = [request(arrived_s=0.05 + 0.1 * number) for number in range(1000)]
    warm_up, replay = phases(recorded, recorded_s=100.0, seconds=20.0, factor=2.0)
    assert replay.duration_s == 20.0
    assert warm_up.duration_s == WARM_UP_FRACTION * 20.0
    assert len(replay.requests) == pytest.approx(400, abs=1)
    assert len(warm_up.requests) == pytest.approx(100, abs=1)


def test_few_recorded_requests_leave_the_mean_length_uncertain() -> None:
    """25 answers of 1 and 25 of 99 tokens: the mean of 50 has a standard error of 49 / sqrt(50),
    6.9, however many requests a replicate serves."""
    recorded = [request(output_tokens=1 + 98 * (number % 2)) for number in range(50)]
    means = [
        np.mean([named.output_tokens for named in closed(recorded, seed).requests])
        for seed in range(40)
    ]
    assert np.std(means) == pytest.approx(6.9, rel=0.3)


def closed(requests: Sequence[RequestRecord], seed: int) -> Phase:
    """1000 requests at a time: 4000 are drawn, whose own sampling error is 0.8 tokens."""
    return make_phases(
        requests,
        ConstantConcurrency(1000),
        fit_categories({}, 1),
        recorded_s=60.0,
        seconds=10.0,
        looks_ngrams_up=False,
        random=np.random.default_rng(seed),
    )[-1]


def test_a_time_without_arrivals_is_refused() -> None:
    with pytest.raises(PlanError, match=r"no request arrives in 60 s .* raise --seconds"):
        phases([request(arrived_s=9000.0)], recorded_s=36_000.0, seconds=60.0)


def test_a_pause_in_the_recording_is_passed_over() -> None:
    """Half of the recorded time has arrivals; no replicate is refused for one that begins in the
    other half."""
    arrivals = [request(arrived_s=1.0 + number) for number in range(50)]
    for seed in range(20):
        assert phases(arrivals, recorded_s=100.0, seconds=10.0, seed=seed)[-1].requests

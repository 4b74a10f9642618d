"""The figures of a window, from the requests that overlap it."""

from __future__ import annotations

import pytest

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.results.slo import Slo
from paceline.workbench.tune.live.window import measure_window
from paceline.workbench.tune.values import TuneError


def request(
    start_s: float, end_s: float, ttft_s: float = 0.1, tokens: int | None = 11
) -> RequestRecord:
    return RequestRecord(
        index=0,
        task="t",
        scheduled_s=start_s,
        sent_s=start_s,
        chunk_times_s=(start_s + ttft_s,),
        finished_s=end_s,
        outcome=RequestOutcome.OK,
        output_tokens=tokens,
    )


def failed(start_s: float, end_s: float) -> RequestRecord:
    return RequestRecord(
        index=0,
        task="t",
        scheduled_s=start_s,
        sent_s=start_s,
        chunk_times_s=(),
        finished_s=end_s,
        outcome=RequestOutcome.TIMEOUT,
        error="slow",
    )


def test_a_request_counts_by_the_fraction_of_its_duration_in_the_window() -> None:
    # Two slots, requests of 2 s each, window from 1 s to 5 s: one request per second.
    records = [request(start, start + 2) for start in (0, 2, 4)] * 2
    measured = measure_window(records, Slo(ttft_ms=500), 1, 5)
    assert measured.requests_per_s == pytest.approx(1.0)
    assert measured.good_requests_per_s == pytest.approx(1.0)
    assert measured.output_tokens_per_s == pytest.approx(11.0)
    assert measured.num_requests == 4  # those that end at 2 and at 4 s


def test_requests_outside_the_objective_are_requests_and_not_good_ones() -> None:
    records = [request(0, 1), request(0, 1, ttft_s=0.6), request(0, 1, ttft_s=0.2, tokens=2)]
    measured = measure_window(records, Slo(ttft_ms=500, tpot_ms=100), 0, 2)
    assert measured.requests_per_s == pytest.approx(1.5)
    assert measured.good_requests_per_s == pytest.approx(0.5)
    assert (measured.num_requests, measured.num_met, measured.num_errors) == (3, 1, 0)
    assert measured.ttft_p95_ms == pytest.approx(560.0)


def test_failed_requests_miss_the_objective() -> None:
    measured = measure_window([request(0, 1), failed(0, 1)], Slo(ttft_ms=500), 0, 2)
    assert (measured.num_requests, measured.num_met, measured.num_errors) == (2, 1, 1)
    assert measured.requests_per_s == pytest.approx(0.5)


def test_an_unknown_time_per_token_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(TuneError, match="came without usage"):
        measure_window([request(0, 1, tokens=None)], Slo(tpot_ms=10), 0, 2)


def test_slow_requests_count_although_they_end_after_the_window() -> None:
    fast = [request(1 + n / 2, 1.5 + n / 2) for n in range(4)]
    slow = [request(1.5, 9, ttft_s=7.0) for _ in range(8)]
    measured = measure_window([*fast, *slow, failed(2, 60)], Slo(ttft_ms=500), 1, 3)
    assert (measured.num_requests, measured.num_met, measured.num_errors) == (13, 4, 1)
    assert measured.ttft_p95_ms == pytest.approx(7000)


def test_requests_that_began_before_the_window_have_no_part_in_the_attained_share() -> None:
    records = [request(0, 1.5), request(1.5, 2.5), request(2.5, 3.5)]
    assert measure_window(records, Slo(ttft_ms=500), 1, 3).num_requests == 2


def test_a_window_in_which_no_request_begins_is_an_error() -> None:
    """Every answer takes longer than the block."""
    records = [request(0, 40, ttft_s=0.3) for _ in range(8)]
    with pytest.raises(TuneError, match=r"took up to 40\.0 s; give --block-seconds above that"):
        measure_window(records, Slo(ttft_ms=500), 1, 6)

"""Throughput and load over time, from records with round times."""

from __future__ import annotations

import pytest

from paceline.foundation.results.series import build_series, mean_in_flight, token_arrivals
from unit.bench.results.records import record, steady


def test_the_tokens_of_an_answer_are_spread_over_its_chunks() -> None:
    """6 tokens in chunks at 0.5, 1.0 and 1.5: 2 each."""
    arrivals = token_arrivals([record(output_tokens=6)])
    assert arrivals.tokens_between(0.0, 1.0) == 2.0
    assert arrivals.tokens_between(0.5, 1.5) == 4.0
    assert arrivals.tokens_between(0.0, 9.0) == 6.0


def test_failures_and_answers_without_usage_bring_no_tokens() -> None:
    arrivals = token_arrivals([record(error="x"), record(output_tokens=None)])
    assert arrivals.tokens_between(0.0, 9.0) == 0.0


def test_requests_count_in_flight_from_their_due_time_to_their_end() -> None:
    """0 to 1.5 s and 1 to 2 s: 2.5 request seconds in 2 s, of which 1 in [1, 2) is shared."""
    records = [record(), record(1, scheduled_s=1.0, chunk_times_s=(2.0,), finished_s=2.0)]
    assert mean_in_flight(records, 0.0, 2.0) == 1.25
    assert mean_in_flight(records, 1.0, 2.0) == 1.5
    assert mean_in_flight([], 0.0, 1.0) == 0.0


def test_the_series_covers_the_run_in_whole_seconds() -> None:
    """Each second 6 tokens, and a request in flight for 0.75 s."""
    series = build_series(steady(4))
    assert series.bucket_s == 1.0
    assert series.output_tokens_per_s == (6.0,) * 4
    assert series.requests_in_flight == (0.75,) * 4


def test_a_long_run_has_longer_buckets() -> None:
    """900.75 s need buckets of 4 s to be at most 300."""
    series = build_series(steady(901))
    assert series.bucket_s == 4.0
    assert len(series.output_tokens_per_s) == 226
    assert series.output_tokens_per_s[0] == pytest.approx(6.0)


def test_no_records_give_an_empty_series() -> None:
    assert build_series([]).output_tokens_per_s == ()

"""Goodput under an objective, with intervals from published tables."""

from __future__ import annotations

import pytest

from paceline.foundation.results.slo import (
    Slo,
    describe_slo,
    measure_goodput,
    parse_slo,
    wilson_interval,
)
from unit.bench.results.records import record


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("ttft=1s,tpot=50ms", Slo(1000.0, 50.0, None)),
        (" e2e = 2.5s ", Slo(None, None, 2500.0)),
        ("tpot=50ms,ttft=300ms,e2e=20s", Slo(300.0, 50.0, 20_000.0)),
    ],
)
def test_an_objective_is_read_as_typed(text: str, slo: Slo) -> None:
    assert parse_slo(text) == slo


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no bound; write ttft, tpot or e2e"),
        ("ttft=1", "'ttft=1' is no bound"),
        ("itl=5ms", "'itl=5ms' is no bound"),
        ("ttft=1s,ttft=2s", "ttft is bounded twice"),
        ("ttft=0s", "each must be above 0"),
    ],
)
def test_an_objective_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_slo(text)


def test_every_bound_has_to_be_met() -> None:
    """The record: TTFT 0.5 s, TPOT (1.5 - 0.5) / 4 = 0.25 s, E2E 1.5 s."""
    ok = record()
    assert Slo(ttft_ms=500, tpot_ms=250, e2e_ms=1500).is_met(ok)
    assert not Slo(ttft_ms=499).is_met(ok)
    assert not Slo(ttft_ms=500, tpot_ms=249).is_met(ok)
    assert not Slo(ttft_ms=500, e2e_ms=1499).is_met(ok)
    assert not Slo(ttft_ms=5000).is_met(record(error="status 500"))


def test_an_answer_without_content_misses() -> None:
    empty = record(chunk_times_s=(), output_tokens=0)
    assert Slo(ttft_ms=1500).is_met(empty) is False
    assert Slo(tpot_ms=1500).is_met(empty) is False
    assert Slo(e2e_ms=1500).is_met(empty) is False


def test_an_answer_of_one_token_has_no_time_per_output_token_and_meets_the_bound() -> None:
    assert Slo(tpot_ms=1).is_met(record(chunk_times_s=(0.5,), output_tokens=1)) is True


def test_a_time_per_output_token_without_usage_is_unknown() -> None:
    unknown = record(output_tokens=None)
    assert Slo(tpot_ms=1).is_met(unknown) is None
    assert Slo(ttft_ms=499, tpot_ms=1).is_met(unknown) is False
    assert Slo(ttft_ms=500).is_met(unknown) is True


def test_goodput_is_unknown_if_one_request_is() -> None:
    records = [record(0), record(1, output_tokens=None)]
    goodput = measure_goodput(records, Slo(tpot_ms=250), window_s=2.0)
    assert goodput.num_requests == 2
    assert (goodput.num_met, goodput.attained_fraction, goodput.requests_per_s) == (None,) * 3
    assert (goodput.attained_fraction_ci95, goodput.requests_per_s_ci95) == (None, None)
    assert measure_goodput(records, Slo(ttft_ms=500), window_s=2.0).requests_per_s == 1.0


def test_errors_count_against_goodput() -> None:
    """Of four in 2 s: two meet the bound, one is slow, one failed."""
    records = [
        record(0),
        record(1),
        record(2, chunk_times_s=(2.0,), finished_s=2.0),
        record(3, error="x"),
    ]
    goodput = measure_goodput(records, Slo(ttft_ms=1000), window_s=2.0)
    assert (goodput.num_met, goodput.num_requests) == (2, 4)
    assert goodput.attained_fraction == 0.5
    assert goodput.requests_per_s == 1.0
    assert goodput.attained_fraction_ci95 == pytest.approx((0.1500, 0.8500), abs=1e-4)
    assert goodput.requests_per_s_ci95 == pytest.approx((0.3000, 1.7000), abs=2e-4)


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [
        (0, 10, (0.0, 0.2775)),
        (10, 10, (0.7225, 1.0)),
        (81, 263, (0.2553, 0.3662)),  # Newcombe 1998, table I
        (15, 148, (0.0624, 0.1605)),
    ],
)
def test_wilson_intervals_equal_published_ones(
    successes: int, trials: int, interval: tuple[float, float]
) -> None:
    assert wilson_interval(successes, trials) == pytest.approx(interval, abs=1e-4)


def test_nothing_measured_gives_no_goodput() -> None:
    goodput = measure_goodput([], Slo(ttft_ms=1), None)
    assert goodput.attained_fraction is None
    assert goodput.attained_fraction_ci95 is None
    assert goodput.requests_per_s is None
    assert wilson_interval(0, 0) is None


def test_the_description_names_only_what_is_bounded() -> None:
    assert describe_slo(Slo(ttft_ms=1000, tpot_ms=50)) == "TTFT <= 1000 ms, TPOT <= 50 ms"

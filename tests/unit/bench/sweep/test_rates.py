"""Whether a server kept a rate, and which rate comes next."""

from __future__ import annotations

import pytest

from paceline.foundation.load.records import RequestRecord
from paceline.workbench.bench.sweep.rates import RateStep, is_rate_kept, next_rate, served_fraction
from unit.bench.results.records import record


def requests(count: int, latencies_s: list[float], period_s: float = 1.0) -> list[RequestRecord]:
    """Due every `period_s`; latencies repeat."""
    return [
        record(
            number,
            scheduled_s=number * period_s,
            chunk_times_s=(),
            finished_s=number * period_s + latencies_s[number % len(latencies_s)],
        )
        for number in range(count)
    ]


def test_the_last_answers_do_not_count_against_a_server_that_keeps_up() -> None:
    """101 requests in 100 s, 20 s each: 81 were due by 80 s and ended by 100 s."""
    records = requests(101, [20.0])
    assert served_fraction(records) == 1.0
    assert is_rate_kept(records)


def test_a_server_at_half_the_rate_does_not_keep_it() -> None:
    """Request n ends at 2 n + 1: 50 end by 100 s, and about 88 should have."""
    records = requests(101, [0.0])
    behind = [
        record(r.index, scheduled_s=r.scheduled_s, chunk_times_s=(), finished_s=2 * r.index + 1.0)
        for r in records
    ]
    fraction = served_fraction(behind)
    assert fraction is not None
    assert fraction < 0.6
    assert not is_rate_kept(behind)


def test_refused_requests_are_not_served() -> None:
    records = [
        record(n, scheduled_s=float(n), chunk_times_s=(), finished_s=n + 0.1,
               error="429" if n % 3 == 0 else None)
        for n in range(60)
    ]  # fmt: skip
    assert served_fraction(records) == pytest.approx(40 / 59, abs=0.02)
    assert not is_rate_kept(records)


def test_a_run_that_is_shorter_than_an_answer_shows_nothing() -> None:
    records = requests(5, [30.0])
    assert served_fraction(records) is None
    assert not is_rate_kept(records)
    assert served_fraction([]) is None


def steps(**rates: bool) -> list[RateStep]:
    return [RateStep(float(name[1:]), is_kept) for name, is_kept in rates.items()]


@pytest.mark.parametrize(
    ("found", "rate"),
    [
        ([], 3.0),
        (steps(r3=True), 6.0),
        (steps(r3=True, r6=True), 12.0),
        (steps(r3=False), 1.5),
        (steps(r4=True, r9=False), 6.0),
        (steps(r4=True, r9=False, r6=True), pytest.approx(54**0.5)),
        (steps(r4=True, r5=False), None),
    ],
)
def test_the_search_doubles_and_then_halves_the_gap(
    found: list[RateStep], rate: float | None
) -> None:
    assert next_rate(found, 3.0) == rate


def test_the_search_finds_the_limit_of_a_server_within_a_quarter() -> None:
    for limit in (0.3, 7.0, 100.0):
        found: list[RateStep] = []
        while (rate := next_rate(found, 1.0)) is not None:
            found.append(RateStep(rate, rate <= limit))
        kept = max(step.rate_per_s for step in found if step.is_kept)
        assert limit / 1.25 <= kept <= limit
        assert len(found) <= 12

"""Whether counters hold more than the run itself asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from paceline.foundation.load.records import RequestRecord
from paceline.workbench.bench.results.other_traffic import OtherTraffic, find_other_traffic
from paceline.workbench.bench.results.speculation import (
    SpeculationCounters,
    compare_counters,
    unknown_speculation,
)
from paceline.workbench.bench.results.validity import judge_counters
from unit.bench.results.records import record

EIGHT = [record(index, output_tokens=20) for index in range(8)]
"""160 tokens."""


def found(
    drafted: int,
    accepted: int,
    drafts: int | None = None,
    column: tuple[int, ...] | None = None,
    generated: int | None = None,
    records: Sequence[RequestRecord] = EIGHT,
) -> OtherTraffic | None:
    zero = SpeculationCounters(
        0, 0, None if drafts is None else 0, None if column is None else (),
        None if generated is None else 0,
    )  # fmt: skip
    after = SpeculationCounters(drafted, accepted, drafts, column, generated)
    return find_other_traffic(compare_counters(zero, after, "page"), records)


def test_drafts_that_yield_more_tokens_than_the_run_received_are_of_others() -> None:
    """2,898 drafted in 966 drafts of 3, of which 400 were accepted: 1,366 output tokens."""
    assert found(2898, 400, 966) == OtherTraffic(1366, 160)
    assert found(2898, 400) == OtherTraffic(400, 160)


@pytest.mark.parametrize(
    ("drafted", "accepted", "drafts"),
    [
        (0, 0, 0),
        (240, 80, 60),
        # Each answer may end within its last draft of 3: 8 * 3 tokens more.
        (300, 100, 84),
    ],
)
def test_a_run_that_has_the_server_for_itself_is_alone(
    drafted: int, accepted: int, drafts: int
) -> None:
    assert found(drafted, accepted, drafts) is None


def test_the_draft_length_is_that_of_the_counters_by_position() -> None:
    """165 tokens with 8 requests: within the ends of drafts of 2, beyond those of none."""
    assert found(200, 100, 65, (60, 40)) is None
    assert found(0, 165, 0) == OtherTraffic(165, 160)


def test_generated_tokens_count_where_the_server_reports_them() -> None:
    """They show other clients also where little was drafted."""
    assert found(240, 80, 60, generated=160) is None
    assert found(240, 80, 60, generated=1000) == OtherTraffic(1000, 160)
    assert found(0, 0, 0, generated=400) == OtherTraffic(400, 160)


def test_without_counters_nothing_is_known() -> None:
    assert find_other_traffic(unknown_speculation("none"), EIGHT) is None


@pytest.mark.parametrize(
    "unknown",
    [
        # Their tokens are in the counters, and not in those that the run received.
        [record(8, output_tokens=None)],
        [record(8, error="x", output_tokens=None)],
        [record(8, error="x", output_tokens=3)],
        [record(index, output_tokens=None) for index in range(8, 72)],
    ],
)
def test_with_unknown_tokens_nothing_is_claimed(unknown: list[RequestRecord]) -> None:
    assert found(2898, 400, 966, generated=1400, records=[*EIGHT, *unknown]) is None


def test_the_warning_gives_both_numbers_unless_the_run_was_interrupted() -> None:
    """Requests that were cancelled have no record, and their tokens are in the counters."""
    counters = SpeculationCounters(2898, 400, 966, None)
    speculation = compare_counters(SpeculationCounters(0, 0, 0, None), counters, "page")
    (warning,) = judge_counters(speculation, EIGHT)
    assert (warning.id, warning.invalidates) == ("other_traffic", False)
    assert "1,366 output tokens in the window, of which this run received 160." in warning.message
    assert list(judge_counters(speculation, EIGHT, is_interrupted=True)) == []

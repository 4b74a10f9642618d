"""Two runs compared check by check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.operations.validate.report.comparison import (
    Comparison,
    FigureChange,
    compare,
    describe_previous,
)
from paceline.operations.validate.values import CheckResult, Status
from unit.validate.samples import result


def compared(before: list[CheckResult], now: list[CheckResult]) -> Comparison:
    return compare(
        before, now, previous_date_utc="2026-11-22T10:00:00+00:00", previous_model="m",
        previous_tier="startup",
    )  # fmt: skip


def test_a_run_of_another_tier_is_named_as_one_of_another_load() -> None:
    comparison = compared([result("a")], [result("a")])
    assert describe_previous(comparison, "startup") == "m"
    assert describe_previous(comparison, "local").startswith("m, tier startup: another load")
    old_report = replace(comparison, previous_tier="")
    assert describe_previous(old_report, "local") == "m"


@pytest.mark.parametrize(
    ("before", "now", "worse", "better"),
    [
        (Status.PASS, Status.PASS, (), ()),
        (Status.PASS, Status.FAIL, ("a",), ()),
        (Status.PASS, Status.SKIP, ("a",), ()),
        (Status.SKIP, Status.FAIL, ("a",), ()),
        (Status.FAIL, Status.FAIL, (), ()),
        (Status.FAIL, Status.PASS, (), ("a",)),
        (Status.SKIP, Status.PASS, (), ("a",)),
        (Status.FAIL, Status.SKIP, (), ()),
    ],
)
def test_worse_and_better(
    before: Status, now: Status, worse: tuple[str, ...], better: tuple[str, ...]
) -> None:
    found = compared([result("a", before)], [result("a", now)])
    assert (found.worse, found.better) == (worse, better)


def test_a_check_that_is_new_and_fails_is_worse_and_one_that_is_gone_after_a_pass_too() -> None:
    found = compared([result("gone")], [result("new", Status.FAIL)])
    assert found.worse == ("new", "gone")
    assert [(one.id, one.before, one.now) for one in found.changes] == [
        ("new", None, Status.FAIL),
        ("gone", Status.PASS, None),
    ]


def test_changed_figures_are_listed_and_equal_ones_and_texts_are_not() -> None:
    before = result("a", p99_ms=10.0, num=4, name="x", is_on=True, none=None)
    now = result("a", p99_ms=12.5, num=4, name="y", is_on=False, none=3)
    (change,) = compared([before, result("b")], [now, result("b")]).changes
    assert change.figures == (FigureChange("p99_ms", 10.0, 12.5),)

"""Compare two validations check by check. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.operations.validate.values import CheckResult, Figure, Status


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A measured value in both runs."""

    name: str
    before: float
    now: float


@dataclass(frozen=True, slots=True)
class CheckChange:
    """One check in both runs; None where a run has no such check."""

    id: str
    before: Status | None
    now: Status | None
    figures: tuple[FigureChange, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """This run against the previous one."""

    previous_date_utc: str
    previous_model: str
    worse: tuple[str, ...]
    """Checks that fail and did not, or are skipped and passed."""
    better: tuple[str, ...]
    """Checks that pass and did not."""
    changes: tuple[CheckChange, ...]
    """Every check whose status or figures changed."""
    previous_tier: str = ""
    """Of another tier, the load and its limits were others too."""


def compare(
    before: Sequence[CheckResult],
    now: Sequence[CheckResult],
    *,
    previous_date_utc: str,
    previous_model: str,
    previous_tier: str,
) -> Comparison:
    """The changes from one run to the next, in the order of this run."""
    old, new = ({check.id: check for check in run} for run in (before, now))
    changes = [_change(old.get(name), new.get(name)) for name in {**new, **old}]
    return Comparison(
        previous_date_utc=previous_date_utc,
        previous_model=previous_model,
        worse=tuple(one.id for one in changes if _is_worse(one)),
        better=tuple(one.id for one in changes if _is_better(one)),
        changes=tuple(one for one in changes if one.before is not one.now or one.figures),
        previous_tier=previous_tier,
    )


def describe_previous(comparison: Comparison, tier: str) -> str:
    """The model of the previous run, and its tier if that is not `tier`, the one of this run."""
    if comparison.previous_tier in ("", tier):
        return comparison.previous_model
    return (
        f"{comparison.previous_model}, tier {comparison.previous_tier}: another load, so what is "
        "measured under it does not compare"
    )


def _change(old: CheckResult | None, new: CheckResult | None) -> CheckChange:
    known = new or old
    assert known is not None
    figures: tuple[FigureChange, ...] = ()
    if old is not None and new is not None:
        figures = tuple(
            FigureChange(name, float(before), float(now))
            for name, now in new.figures.items()
            if _is_number(now)
            and _is_number(before := old.figures.get(name))
            and before != now
            and before is not None
            and now is not None
        )
    return CheckChange(
        known.id,
        None if old is None else old.status,
        None if new is None else new.status,
        figures,
    )


def _is_number(value: Figure) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_worse(change: CheckChange) -> bool:
    if change.now is Status.FAIL:
        return change.before is not Status.FAIL
    return change.before is Status.PASS and change.now is not Status.PASS


def _is_better(change: CheckChange) -> bool:
    return change.now is Status.PASS and change.before in (Status.FAIL, Status.SKIP)

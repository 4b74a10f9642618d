"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a check found."""

    PASSED = "passed"
    WARNING = "warning"
    """It works, worse than it could; or it fails if an estimate is right."""
    REFUSED = "refused"
    """It cannot work: the server is not started."""
    NOT_JUDGED = "not judged"
    """A fact is missing, or Paceline does not know enough."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One verdict."""

    check: str
    """Stable: `engine.skip_checks` names it."""
    verdict: Verdict
    text: str
    """One sentence. If not passed: what was given, what is allowed and what to change."""


class CannotJudge(Exception):
    """A fact is missing. The message says which."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a check says, before it gets the check's name."""

    verdict: Verdict
    text: str


def passed(text: str) -> Found:
    """Nothing is wrong; `text` has the facts that say so."""
    return Found(Verdict.PASSED, text)


def warning(text: str) -> Found:
    """See `Verdict.WARNING`."""
    return Found(Verdict.WARNING, text)


def refused(text: str) -> Found:
    """See `Verdict.REFUSED`."""
    return Found(Verdict.REFUSED, text)

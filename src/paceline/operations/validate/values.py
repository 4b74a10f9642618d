"""The values of a validation: statuses, judgements, results, and why a check cannot be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Figure = bool | int | float | str | None


class Status(StrEnum):
    """The result of a check."""

    PASS = "PASS"
    FAIL = "FAIL"
    SKIP = "SKIP"
    """Nothing was decided; the reason says what is missing."""


class Group(StrEnum):
    """What a check is about."""

    API = "api"
    SECURITY = "security"
    OPERATION = "operation"
    PERFORMANCE = "performance"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A status, its reason, and the figures that it rests on."""

    status: Status
    reason: str
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError(f"a {self.status} needs a reason")


def passed(reason: str, **figures: Figure) -> Judgement:
    """A PASS."""
    return Judgement(Status.PASS, reason, figures)


def failed(reason: str, **figures: Figure) -> Judgement:
    """A FAIL."""
    return Judgement(Status.FAIL, reason, figures)


def skipped(reason: str, **figures: Figure) -> Judgement:
    """A SKIP."""
    return Judgement(Status.SKIP, reason, figures)


class ValidationError(Exception):
    """A validation cannot be made at all. The message says why."""


class Missing(Exception):
    """A check has nothing to decide about. The message says what is missing."""


class Violation(Exception):
    """What was observed breaks the contract. The message says how."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check, as the report shows it."""

    id: str
    group: Group
    proves: str
    """What a PASS proves."""
    status: Status
    reason: str
    figures: dict[str, Figure]
    """The measured values that the status rests on; units are in the names."""
    seconds: float
    """How long the check took."""
    is_final: bool = True
    """False for a check that was not reached; `--resume` runs it."""

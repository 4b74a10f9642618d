"""What a diagnosis is made of: findings with their evidence and cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

OnStage = Callable[[str], None]
"""Gets what is done next and for how long, in words."""


class Severity(StrEnum):
    """How urgent a finding is."""

    CRITICAL = "critical"
    """Requests fail or stand still, or the deployment is about to end."""
    WARNING = "warning"
    """It costs throughput or latency, and a setting changes that."""
    INFO = "info"
    """Worth knowing; that a change of a setting pays is not certain."""


class Basis(StrEnum):
    """Where the amount of a cost comes from."""

    MEASURED = "measured"
    """Counted by the server, or measured between two settings of it."""
    ESTIMATED = "estimated"
    """Computed from readings and the stated assumption."""
    UNKNOWN = "unknown"
    """The readings do not show it; `how` says why."""


class CostUnit(StrEnum):
    """What is lost."""

    TOKENS_PER_S = "tokens/s"
    MS_TO_FIRST_TOKEN = "ms to first token"
    MS_PER_TOKEN = "ms per token"
    MS_AT_P99 = "ms at P99 between tokens"
    PERCENT_OF_REQUESTS = "% of requests"
    PERCENT_OF_CAPACITY = "% of capacity"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finding costs while the load stays as it was observed."""

    basis: Basis
    how: str
    """How the amount was found, or why it is unknown."""
    unit: CostUnit | None = None
    amount: float | None = None
    low: float | None = None
    """Lower end of the interval; None for an exact amount."""
    high: float | None = None
    share: float | None = None
    """Fraction of the service that is lost, 0 to 1: findings are ordered by it."""
    present_tokens_per_s: float | None = None
    """Output tokens/s that are given at present, where `amount` counts those that are not."""

    def __post_init__(self) -> None:
        if (self.amount is None) != (self.basis is Basis.UNKNOWN):
            raise ValueError(f"a cost that is {self.basis} has amount {self.amount}")
        if (self.amount is None) != (self.unit is None):
            raise ValueError(f"the amount {self.amount} has the unit {self.unit}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}; it must be from 0 to 1")


def unknown_cost(why: str) -> Cost:
    """A cost that the readings do not show."""
    return Cost(Basis.UNKNOWN, why)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure that was read."""

    name: str
    value: float | str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    id: str
    """Stable: scripts may rely on it."""
    severity: Severity
    summary: str
    """One sentence."""
    evidence: tuple[Evidence, ...]
    cost: Cost
    cause: str
    remedy: str
    settings: tuple[str, ...]
    """The settings to change; empty if none helps."""
    subject: str | None = None
    """The replica or engine; None for the whole deployment."""


class Lacking(StrEnum):
    """What would give a verdict."""

    REQUESTS = "requests"
    """More requests while the server is observed, from clients or from `--probe`."""
    PROBE = "probe"
    """Requests of `--probe`: those of clients do not show it."""


class CannotJudge(Exception):
    """The observation does not show what a check needs. The message says what is missing.

    `lacking` is None where no request would show it. Advice on requests is left to the report,
    which knows whether a probe was sent.
    """

    def __init__(self, reason: str, lacking: Lacking | None = None) -> None:
        super().__init__(reason)
        self.lacking = lacking


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A check without a verdict."""

    check: str
    reason: str
    lacking: Lacking | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of all checks."""

    findings: tuple[Finding, ...]
    """The costliest first: by severity, then by the share of the service that is lost."""
    passed: tuple[str, ...]
    """Ids of the checks that were judged and found nothing."""
    not_judged: tuple[NotJudged, ...]
    num_requests: float | None = None
    """That ended while the server was observed; None if it does not show it."""

    @property
    def has_verdict(self) -> bool:
        """Whether any check was judged."""
        return bool(self.findings or self.passed)


_URGENCY = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def order_by_cost(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Critical findings first, then the largest share; an unknown share comes last."""

    def key(finding: Finding) -> tuple[int, float, str]:
        share = finding.cost.share
        return _URGENCY[finding.severity], 1.0 if share is None else -share, finding.id

    return tuple(sorted(findings, key=key))


def exit_code_of(diagnosis: Diagnosis, fixed: Collection[tuple[str, str | None]] = ()) -> int:
    """0 without warnings, 1 with a warning, 3 with a critical finding.

    `fixed`: id and subject of findings that no longer count.
    """
    severities = {one.severity for one in diagnosis.findings if (one.id, one.subject) not in fixed}
    if Severity.CRITICAL in severities:
        return 3
    return 1 if Severity.WARNING in severities else 0

"""Whose fault a failed attempt was: the replica's or the request's.

One replica alone cannot tell: an engine that answers 500 may be broken, or the request may break
every engine. What other replicas did with the same request decides. `fails_too_often` judges the
verdicts of one replica.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from paceline.runtime.gateway.settings import FailureSettings


class Suspicion(Enum):
    """What a failed attempt says about its replica until others have answered the request."""

    ERROR = auto()
    """It failed, and still serves other requests or accepts connections."""
    REFUSAL = auto()
    """It refused the request with a 4xx."""
    OVERLOAD = auto()
    """It refused the request because of its load, with a 429."""


class Verdict(Enum):
    AT_FAULT = auto()
    """The replica: another attempt served the same request."""
    AGREED = auto()
    """The request: another replica failed it in the same way."""
    UNDECIDED = auto()
    """Nothing else is known about the request."""
    SHED = auto()
    """A 429 for a request that another replica served. A busy replica may send any number."""
    NO_FAULT = auto()
    """A refusal that nothing contradicts. A client may send any number of bad requests."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One attempt of a request."""

    replica: str
    suspicion: Suspicion
    had_begun: bool
    """Whether the client had part of the answer: then the next tokens of another replica do not
    show that this one is at fault. A request may break every engine at the same token."""
    repeats: bool = False
    """Whether the error is one that the same request is likely to cause again, a 500. The rest of a
    stream is another request: a plain completion does not meet what fails in a chat."""


def verdict_when_another_answers(failed: FailedAttempt) -> Verdict | None:
    """The verdict when another attempt of the request sent its first tokens; None for not yet."""
    return None if failed.had_begun else _when_served(failed)


def verdict_at_end(
    failed: FailedAttempt, attempts: Collection[FailedAttempt], *, is_served: bool
) -> Verdict:
    """The verdict at the end of the request. `attempts` are all its failed ones, this included."""
    if is_served:
        return _when_served(failed)
    if failed.suspicion is not Suspicion.ERROR:
        return Verdict.NO_FAULT
    others: Sequence[FailedAttempt] = [one for one in attempts if one.replica != failed.replica]
    agrees = any(one.suspicion is failed.suspicion for one in others)
    return Verdict.AGREED if agrees else Verdict.UNDECIDED


def _when_served(failed: FailedAttempt) -> Verdict:
    if failed.suspicion is Suspicion.OVERLOAD:
        return Verdict.SHED
    return Verdict.UNDECIDED if failed.had_begun and failed.repeats else Verdict.AT_FAULT


@dataclass(frozen=True, slots=True)
class Record:
    """How the attempts on a replica ended within the window; numbers of attempts."""

    num_served: float
    num_at_fault: float
    """Failed, and the replica was the cause."""
    num_agreed: float = 0
    """Failed, and the request was the cause: another replica failed it too."""
    num_undecided: float = 0
    """Failed, and nothing shows the cause."""
    num_shed: float = 0
    """Refused because of the load, and another replica served the request."""
    num_streaming: int = 0
    """Streams that have begun and have not ended; the window does not limit them."""


def fails_too_often(record: Record, settings: FailureSettings) -> bool:
    """Whether the breaker of a closed replica should open.

    Undecided failures count as the decided ones show:

        failures = at fault + undecided · at fault / (at fault + agreed),

    and the breaker opens when these are `max_failure_fraction` or more of `min_samples` attempts or
    more. It also opens when `min_samples` attempts or more failed, whatever the cause, and the
    replica serves nothing, 429 included: a replica that fails every request is of no use, also
    where no other replica shows that the requests are good.

    >>> settings = FailureSettings(min_samples=10, max_failure_fraction=0.5)
    >>> fails_too_often(Record(num_served=1, num_at_fault=0, num_agreed=1000), settings)
    False
    >>> fails_too_often(Record(num_served=6, num_at_fault=2, num_undecided=4), settings)
    True
    """
    num_decided = record.num_at_fault + record.num_agreed
    num_failed = num_decided + record.num_undecided + record.num_shed
    if not record.num_served and not record.num_streaming:
        return num_failed >= settings.min_samples
    fault_fraction = record.num_at_fault / num_decided if num_decided else 0.0
    num_faults = record.num_at_fault + record.num_undecided * fault_fraction
    num_samples = num_faults + record.num_served
    is_known = num_samples >= settings.min_samples
    return is_known and num_faults >= settings.max_failure_fraction * num_samples

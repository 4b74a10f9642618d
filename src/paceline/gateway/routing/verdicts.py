"""Whose fault a failed attempt was: the replica's or the request's.

One replica alone cannot tell: an engine that answers 500 may be broken, or the request may break
every engine. What other replicas did with the same request decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Suspicion(Enum):
    """What a failed attempt says about its replica until others have answered the request."""

    ERROR = auto()
    """It failed, and still serves other requests or accepts connections."""
    REFUSAL = auto()
    """It refused the request with a 4xx."""


class Verdict(Enum):
    AT_FAULT = auto()
    """The replica: another attempt served the same request."""
    AGREED = auto()
    """The request: another replica failed it in the same way."""
    UNDECIDED = auto()
    """Nothing else is known about the request."""
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


def verdict_when_another_answers(failed: FailedAttempt) -> Verdict | None:
    """The verdict when another attempt of the request sent its first tokens; None for not yet."""
    return None if failed.had_begun else Verdict.AT_FAULT


def verdict_at_end(
    failed: FailedAttempt, attempts: Collection[FailedAttempt], *, is_served: bool
) -> Verdict:
    """The verdict at the end of the request. `attempts` are all its failed ones, this included."""
    if is_served:
        return Verdict.AT_FAULT
    if failed.suspicion is Suspicion.REFUSAL:
        return Verdict.NO_FAULT
    others: Sequence[FailedAttempt] = [one for one in attempts if one.replica != failed.replica]
    agrees = any(one.suspicion is failed.suspicion for one in others)
    return Verdict.AGREED if agrees else Verdict.UNDECIDED

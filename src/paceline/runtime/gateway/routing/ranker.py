"""`ReplicaRanker`: the extension point for routing rules, and the values it works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.signals import ReplicaSignals


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica that may take the attempt, with what is known about it now."""

    replica: Replica
    num_in_flight: int
    """Sequences that this process has sent to it and that have not ended. Attempts that failed
    there count as several, while it is not known whose fault that was."""
    num_in_flight_at_peers: int
    """The same of the other processes on the data port, as last reported."""
    num_slots: int
    """Sequences that it takes at a time, at least 1."""
    breaker_order: int
    """Among candidates that are otherwise equal the lowest should be first: 0 when its breaker
    waits for a trial request, 1 when the breaker is closed, 2 when trials have failed."""
    signals: ReplicaSignals | None = None
    """What the replica reported about itself; None when nothing recent is known."""


@dataclass(frozen=True, slots=True)
class RankedReplica:
    """One replica in the ranking."""

    replica: Replica
    reason: str
    """Why it is at this position, in a few words; never empty."""


class ReplicaRanker(Protocol):
    """A routing rule. Pure: no clock, no I/O, no state that a call changes."""

    def rank(self, candidates: Sequence[Candidate]) -> list[RankedReplica]:
        """The same replicas, the best one first.

        Called for every attempt, so it must be fast. It must not mutate `candidates`, must return
        each replica exactly once, and must give the same order for the same candidates. Without
        candidates the result is empty.
        """
        ...

"""How many requests may this process answer, where others answer on the same port?

Values, and what holds for a process that is alone. How places are dealt out to several is in
`workers`; who waits for a place is kept in `admission`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SlotQuota:
    """The places of one model, as far as this process is concerned."""

    num_slots: int
    """Those that it gets where it wants as many as it can; 0 when no replica can take a request."""
    limit: int
    """Requests that it may hold just now."""
    num_waiting_elsewhere: int = 0
    """Requests that wait in the other processes."""
    num_reachable: int = 0
    """Requests that it may hold, or soon may, once the others have heard that it wants the places
    that they leave idle; those that hold and that wait here count alike. 0 for a process that is
    alone: it has all places."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process holds of a model's places, and how many requests wait there."""

    num_held: int = 0
    num_waiting: int = 0


class PeerWorkers(Protocol):
    """The other processes on the data port, as known at this moment. Answers from memory."""

    def num_in_flight(self, replica_name: str) -> int:
        """Requests that they have sent to the replica."""
        ...

    def places(self, model: str, num_slots: int) -> SlotQuota:
        """This process's part of the model's slots."""
        ...


def all_of_them(num_slots: int) -> SlotQuota:
    """The part of a process that is alone."""
    return SlotQuota(num_slots, num_slots)


class NoPeerWorkers:
    """One process has the port to itself."""

    def num_in_flight(self, replica_name: str) -> int:
        return 0

    def places(self, model: str, num_slots: int) -> SlotQuota:
        return all_of_them(num_slots)

"""Values shared by the processes that serve one data port: slot quotas, slot demands, peer loads.

`NoPeerWorkers` is the answer for a process that serves the port alone. `workers` computes the
quotas of several processes; `admission` queues requests within them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SlotQuota:
    """How many of one model's slots this process may use.

    A slot is the right to have one request at a replica.
    """

    num_slots: int
    """Slots that this process gets when it wants as many as possible; 0 when no replica can take a
    request."""
    limit: int
    """Requests that it may hold now."""
    num_waiting_elsewhere: int = 0
    """Requests that wait in the other processes."""
    num_reachable: int = 0
    """Requests that this process may hold now or soon, once the others have handed over the slots
    that they leave idle. Requests held here and requests waiting here both count against it. 0 for
    a process that serves the port alone: it has all slots."""


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """How many of one model's slots a process holds, and how many of its requests wait for one."""

    num_held: int = 0
    num_waiting: int = 0


class PeerWorkers(Protocol):
    """The other processes on the data port, as known at this moment. Answers from memory."""

    def num_in_flight(self, replica_name: str) -> int:
        """Requests that the other processes have sent to the replica."""
        ...

    def slot_quota(self, model: str, num_slots: int) -> SlotQuota:
        """This process's quota when all processes together have `num_slots`."""
        ...


def whole_quota(num_slots: int) -> SlotQuota:
    """The quota of a process that serves the port alone: every slot."""
    return SlotQuota(num_slots, num_slots)


class NoPeerWorkers:
    """The `PeerWorkers` of a process that serves the port alone."""

    def num_in_flight(self, replica_name: str) -> int:
        return 0

    def slot_quota(self, model: str, num_slots: int) -> SlotQuota:
        return whole_quota(num_slots)

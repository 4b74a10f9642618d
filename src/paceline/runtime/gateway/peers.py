"""Values shared by the processes that serve one data port: slot quotas and slot demands.

`NoPeerWorkers` is the answer for a process that serves the port alone. `workers` computes the
quotas of several processes; `admission` queues requests within them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SlotQuota:
    """How many of one replica's slots this process may use.

    A slot is the right to have one sequence computed at the replica.
    """

    num_slots: int
    """Slots that this process gets when it wants as many as possible."""
    limit: int
    """Sequences that it may hold now."""
    num_reachable: int = 0
    """Sequences that this process may hold now or soon, once the others have handed over the slots
    that they leave idle. Sequences held here and sequences waiting here both count against it. 0
    for a process that serves the port alone: it has all slots."""
    num_held: int = 0
    """Sequences that this process holds."""

    @property
    def num_free(self) -> int:
        """Slots that it may take now; negative while it holds more than its limit."""
        return self.limit - self.num_held


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """How many of one replica's slots a process holds, and how many more it could use."""

    num_held: int = 0
    num_waiting: int = 0
    """Sequences of waiting requests that this replica could compute; some other replicas may be
    able to compute them too."""


class PeerWorkers(Protocol):
    """The other processes on the data port, as known at this moment. Answers from memory."""

    def num_held(self, replica_name: str) -> int:
        """Slots of the replica that the other processes hold."""
        ...

    def num_waiting(self, model: str) -> int:
        """Requests for the model that wait in the other processes."""
        ...

    def slot_quota(self, replica_name: str, num_slots: int) -> SlotQuota:
        """This process's quota of a replica that has `num_slots`, without what it holds."""
        ...


class NoPeerWorkers:
    """The `PeerWorkers` of a process that serves the port alone: it has every slot."""

    def num_held(self, replica_name: str) -> int:
        return 0

    def num_waiting(self, model: str) -> int:
        return 0

    def slot_quota(self, replica_name: str, num_slots: int) -> SlotQuota:
        return SlotQuota(num_slots, num_slots)

"""A worker's view of its peers: a value that the parent replaces and that every request reads."""

from __future__ import annotations

from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.workers.messages import PeerState, SlotAllocation


class PeerWorkerView:
    """The `PeerWorkers` of a worker process. Its numbers are about 50 ms old."""

    def __init__(self) -> None:
        self.state = PeerState()

    def update(self, state: PeerState) -> None:
        """Replace the state of the peers."""
        self.state = state

    def num_held(self, replica_name: str) -> int:
        allocation = self.state.slots.get(replica_name)
        return 0 if allocation is None else allocation.num_held_by_peers

    def num_waiting(self, model: str) -> int:
        return self.state.queue_lengths.get(model, 0)

    def slot_quota(self, replica_name: str, num_slots: int) -> SlotQuota:
        allocation = self.state.slots.get(replica_name)
        if allocation is None:  # a new replica, whose slots the parent will allocate at once
            return SlotQuota(num_slots=1, limit=0, num_reachable=num_slots)
        return quota_of(allocation)


def quota_of(allocation: SlotAllocation) -> SlotQuota:
    """The quota of a worker with this allocation.

    >>> quota_of(SlotAllocation(num_slots=8, limit=3, fair_share=4, num_held_by_peers=2))
    SlotQuota(num_slots=4, limit=3, num_reachable=6, num_held=0)
    """
    num_wanted_by_peers = allocation.num_held_by_peers + allocation.num_waiting_in_peers
    return SlotQuota(
        num_slots=max(allocation.fair_share, 1),
        limit=allocation.limit,
        num_reachable=max(0, allocation.num_slots - num_wanted_by_peers),
    )

"""A worker's view of its peers: a value that the parent replaces and that every request reads."""

from __future__ import annotations

from paceline.gateway.peers import SlotQuota
from paceline.gateway.workers.messages import PeerState, SlotAllocation


class PeerWorkerView:
    """The `PeerWorkers` of a worker process. Its numbers are about 50 ms old."""

    def __init__(self) -> None:
        self.state = PeerState()

    def update(self, state: PeerState) -> None:
        """Replace the state of the peers."""
        self.state = state

    def num_in_flight(self, replica_name: str) -> int:
        return self.state.in_flight.get(replica_name, 0)

    def slot_quota(self, model: str, num_slots: int) -> SlotQuota:
        allocation = self.state.slots.get(model)
        if (
            allocation is None or not allocation.num_slots
        ):  # the parent has not allocated its slots yet
            return SlotQuota(num_slots=min(num_slots, 1), limit=0, num_reachable=num_slots)
        return quota_of(allocation, num_slots)


def quota_of(allocation: SlotAllocation, num_slots: int) -> SlotQuota:
    """The quota where this worker sees only `num_slots` of the allocated slots.

    A worker sees fewer slots than the parent while its breakers keep requests away from a replica;
    it then uses the same fraction of its allocation. Fractions are rounded up, or no worker might
    serve at all: because of this, N workers may hold N - 1 requests more than there are slots.

    >>> allocation = SlotAllocation(num_slots=8, limit=3, fair_share=4, num_held_by_peers=4)
    >>> quota_of(allocation, num_slots=4)
    SlotQuota(num_slots=2, limit=2, num_waiting_elsewhere=0, num_reachable=2)
    """
    # A new replica may be visible here before the parent has allocated its slots.
    num_visible = min(num_slots, allocation.num_slots)

    def scaled(number: int) -> int:
        return -(-number * num_visible // allocation.num_slots)

    num_wanted_by_peers = allocation.num_held_by_peers + allocation.num_waiting_in_peers
    return SlotQuota(
        num_slots=max(scaled(allocation.fair_share), min(num_slots, 1)),
        limit=scaled(allocation.limit),
        num_waiting_elsewhere=allocation.num_waiting_in_peers,
        num_reachable=scaled(max(0, allocation.num_slots - num_wanted_by_peers)),
    )

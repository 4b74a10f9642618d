"""What does a worker know of the others?

A value that the head replaces; asked for every request.
"""

from __future__ import annotations

from paceline.gateway.admission.slot_quota import SlotQuota
from paceline.gateway.workers.messages import Elsewhere, Part


class PeerWorkerView:
    """The `PeerWorkers` of a worker. What it says of the others is about 50 ms old."""

    def __init__(self) -> None:
        self.last = Elsewhere()

    def hear(self, elsewhere: Elsewhere) -> None:
        """Take in what the others hold, and what they leave."""
        self.last = elsewhere

    def num_in_flight(self, replica_name: str) -> int:
        return self.last.in_flight.get(replica_name, 0)

    def places(self, model: str, num_slots: int) -> SlotQuota:
        part = self.last.parts.get(model)
        if part is None or not part.of:  # the head has not heard of them yet
            return SlotQuota(num_slots=min(num_slots, 1), limit=0, num_reachable=num_slots)
        return places_of(part, num_slots)


def places_of(part: Part, num_slots: int) -> SlotQuota:
    """The part, where this worker sees so many slots.

    It sees fewer than the head does while it keeps requests away from a replica that failed here,
    and then takes as much less of each. Rounded up, else nobody might serve: with this alone N
    workers may hold N - 1 more than there are.

    >>> places_of(Part(of=8, limit=3, share=4, num_held_elsewhere=4), num_slots=4)
    SlotQuota(num_slots=2, limit=2, num_waiting_elsewhere=0, num_reachable=2)
    """

    num_seen = min(num_slots, part.of)  # of a replica that has just come the part follows

    def scaled(number: int) -> int:
        return -(-number * num_seen // part.of)

    num_wanted_elsewhere = part.num_held_elsewhere + part.num_waiting_elsewhere
    return SlotQuota(
        num_slots=max(scaled(part.share), min(num_slots, 1)),
        limit=scaled(part.limit),
        num_waiting_elsewhere=part.num_waiting_elsewhere,
        num_reachable=scaled(max(0, part.of - num_wanted_elsewhere)),
    )

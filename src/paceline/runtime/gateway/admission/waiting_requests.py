"""`WaitingRequests`: the requests of one queue, in lanes, oldest first.

Requests of a lane need the same of a replica, take as many slots and about as many tokens, so if
the oldest one finds no place, hardly any of the others does. A pure structure, without clock and
tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Generic, Protocol, TypeVar

from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.requests.plan import RequestPlan

Lane = tuple[NeedsKind, int, int]
"""What the requests need, the number of their sequences, and the class of their tokens."""

_SMALL_TOKENS = 16_384
"""Requests up to this size are of one class; the classes above double. Chosen empirically: most
requests are of the first one, and the number of lanes stays small."""


class Waiter(Protocol):
    """A request that waits."""

    plan: RequestPlan
    arrival: int
    """Rises from one request to the next."""


W = TypeVar("W", bound=Waiter)


def lane_of(plan: RequestPlan) -> Lane:
    cost = plan.cost
    return plan.needs.kind, cost.num_sequences, (cost.num_tokens // _SMALL_TOKENS).bit_length()


class WaitingRequests(Generic[W]):
    """Adding, removing and finding the oldest take a time that depends on the number of lanes
    only."""

    def __init__(self) -> None:
        self._lanes: dict[Lane, OrderedDict[W, None]] = {}
        self._num_requests: dict[NeedsKind, int] = {}
        self._num_sequences: dict[NeedsKind, int] = {}

    def __len__(self) -> int:
        return sum(self._num_requests.values())

    def __contains__(self, request: W) -> bool:
        return request in self._lanes.get(lane_of(request.plan), ())

    def add(self, request: W) -> None:
        """Append a request, which must be younger than all others of its lane."""
        lane = lane_of(request.plan)
        self._lanes.setdefault(lane, OrderedDict())[request] = None
        self._count(lane, 1)

    def remove(self, request: W) -> None:
        lane = lane_of(request.plan)
        requests = self._lanes[lane]
        del requests[request]
        if not requests:
            del self._lanes[lane]
        self._count(lane, -1)

    def has_lane(self, lane: Lane) -> bool:
        """Whether a request of this lane waits."""
        return lane in self._lanes

    def oldest(self, without: Collection[Lane]) -> W | None:
        """The oldest request of all lanes but these."""
        heads = [next(iter(requests)) for lane, requests in self._lanes.items()
                 if lane not in without]  # fmt: skip
        return min(heads, key=lambda head: head.arrival, default=None)

    def kinds(self) -> Collection[NeedsKind]:
        """The kinds of needs that some request has."""
        return self._num_requests.keys()

    def num_requests(self, kind: NeedsKind) -> int:
        return self._num_requests.get(kind, 0)

    def num_sequences(self, kind: NeedsKind, before: int | None = None) -> int:
        """Sequences of the requests of this kind; with `before` only of those that arrived before.

        The latter takes a time that grows with the number of requests.
        """
        if before is None:
            return self._num_sequences.get(kind, 0)
        return sum(
            request.plan.cost.num_sequences
            for request in self._of_kind(kind)
            if request.arrival < before
        )

    def num_before(self, arrival: int) -> int:
        """Requests that arrived before this one, in a time that grows with the number of them."""
        return sum(one.arrival < arrival for lane in self._lanes.values() for one in lane)

    def _of_kind(self, kind: NeedsKind) -> Iterator[W]:
        for lane, requests in self._lanes.items():
            if lane[0] == kind:
                yield from requests

    def _count(self, lane: Lane, by: int) -> None:
        kind, num_sequences, _ = lane
        self._num_requests[kind] = self._num_requests.get(kind, 0) + by
        self._num_sequences[kind] = self._num_sequences.get(kind, 0) + by * num_sequences
        if not self._num_requests[kind]:
            del self._num_requests[kind], self._num_sequences[kind]

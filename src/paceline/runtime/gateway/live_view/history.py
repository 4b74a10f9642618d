"""`History`: the last five minutes as points, and the last events, each update with a number.

A client gets all of it when it connects, then one update per second. The numbers let it notice a
gap; since every connection begins with the whole history, a reconnect neither loses nor repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.runtime.gateway.live_view.values import (
    Event,
    FleetView,
    ReplicaView,
    Snapshot,
    TrafficView,
)

MAX_POINTS = 300
"""Five minutes, at one snapshot per second."""
MAX_EVENTS = 200

Values = tuple[float | None, ...]

REPLICA_SERIES = ("draft_length", "accepted_fraction", "tokens_per_s", "expected_tokens_per_s")
"""What is kept of a replica, and of the fleet."""
TRAFFIC_SERIES = (
    "num_in_flight", "num_waiting", "requests_per_s", "failed_per_s", "output_tokens_per_s",
    "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", "tpot_p99_ms",
    "queue_p50_ms", "queue_p90_ms", "queue_p99_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """What is kept of one snapshot."""

    at_s: float
    traffic: Values
    """In the order of `TRAFFIC_SERIES`."""
    fleet: Values
    """In the order of `REPLICA_SERIES`."""
    replicas: Mapping[str, Values]
    """By name."""


@dataclass(frozen=True, slots=True)
class Update:
    """One snapshot, with the events since the one before."""

    number: int
    snapshot: Snapshot
    events: tuple[Event, ...]


class History:
    """The points and events that are kept. Bounded: the oldest is dropped."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=MAX_POINTS)
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)
        """Both with the oldest first."""
        self.last: Update | None = None
        """The newest update; None before the first."""

    def add(self, snapshot: Snapshot, events: Sequence[Event]) -> Update:
        """Add the next snapshot, and return its update."""
        update, point = self.next_update(snapshot, events), point_of(snapshot)
        self.last = update
        self.points.append(point)
        self.events.extend(events)
        return update

    def next_update(self, snapshot: Snapshot, events: Sequence[Event]) -> Update:
        """The update that `add` makes of them; its number follows that of the last one."""
        number = 1 if self.last is None else self.last.number + 1
        return Update(number, snapshot, tuple(events))


def point_of(snapshot: Snapshot) -> Point:
    """What is kept of a snapshot."""
    return Point(
        snapshot.at_s,
        traffic_values(snapshot.traffic),
        replica_values(snapshot.fleet),
        {view.name: replica_values(view) for view in snapshot.replicas},
    )


def replica_values(view: ReplicaView | FleetView) -> Values:
    """The values in the order of `REPLICA_SERIES`."""
    return tuple(rounded(getattr(view, name)) for name in REPLICA_SERIES)


def traffic_values(traffic: TrafficView) -> Values:
    """The values in the order of `TRAFFIC_SERIES`."""
    rates = (traffic.requests_per_s, traffic.failed_per_s, traffic.output_tokens_per_s)
    times: list[float | None] = []
    for time in (traffic.ttft, traffic.tpot, traffic.queue):
        times += [None] * 3 if time is None else [time.p50_ms, time.p90_ms, time.p99_ms]
    return tuple(map(rounded, (traffic.num_in_flight, traffic.num_waiting, *rates, *times)))


def rounded(value: float | None) -> float | None:
    """Four significant digits: more cannot be seen in a chart, and would double the documents."""
    return value if value is None or isinstance(value, int) else float(f"{value:.4g}")

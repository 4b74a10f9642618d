"""`SnapshotMaker`: from what was gathered at one moment to a `Snapshot`. Without clock or I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from paceline.runtime.gateway.live_view.readings import TrafficReading, TrafficWindow
from paceline.runtime.gateway.live_view.replica_views import (
    GeneratedTokens,
    ReplicaReading,
    view_replica,
)
from paceline.runtime.gateway.live_view.values import FleetView, ReplicaView, Snapshot


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read at one moment."""

    at_s: float
    """Unix time."""
    replicas: Sequence[ReplicaReading]
    traffic: TrafficReading


class SnapshotMaker:
    """Makes each snapshot from the newest reading and a few figures of the readings before."""

    def __init__(self) -> None:
        self._window = TrafficWindow()
        self._governed: dict[str, ReplicaView] = {}
        """The last view with an answer of the governor."""
        self._generated: dict[str, GeneratedTokens] = {}

    def make(self, gathered: Gathered) -> Snapshot:
        """The next snapshot. What is kept of a replica that left is dropped."""
        self._generated = _count_tokens(self._generated, gathered.replicas)
        views = tuple(
            view_replica(
                reading,
                self._governed.get(reading.status.replica.name),
                self._generated.get(reading.status.replica.name),
            )
            for reading in gathered.replicas
        )
        self._governed = {
            view.name: view if view.governor is not None else self._governed[view.name]
            for view in views
            if view.governor is not None or view.name in self._governed
        }
        num_in_flight = sum(view.num_in_flight for view in views)
        traffic = self._window.add(gathered.traffic, num_in_flight)
        return Snapshot(gathered.at_s, views, traffic, view_fleet(views, self._governed))


def view_fleet(views: Sequence[ReplicaView], governed: Container[str] = ()) -> FleetView:
    """Means and sums over the replicas that have the figure; `governed` are names.

    Measured and expected goodput are compared, so both are sums over the same replicas: those with
    an expectation; without one, those with a governor; without a governor, all.
    """
    compared = [
        view for view in views if None not in (view.expected_tokens_per_s, view.tokens_per_s)
    ]
    with_governor = [view for view in views if view.name in governed]
    measured = compared or with_governor or views
    return FleetView(
        draft_length=_mean(view.draft_length for view in views),
        accepted_fraction=_mean(view.accepted_fraction for view in views),
        tokens_per_s=_sum(view.tokens_per_s for view in measured),
        expected_tokens_per_s=_sum(view.expected_tokens_per_s for view in compared),
    )


def _count_tokens(
    before: dict[str, GeneratedTokens], readings: Sequence[ReplicaReading]
) -> dict[str, GeneratedTokens]:
    counted = {}
    for reading in readings:
        name, load = reading.status.replica.name, reading.status.load
        if load.load is None or load.load.generation_tokens_total is None:
            continue
        if not reading.is_load_current:  # its rate is not that of now
            continue
        total, read_at_s = load.load.generation_tokens_total, load.read_at_s
        known = before.get(name)
        counted[name] = (
            GeneratedTokens(read_at_s, total) if known is None else known.then(read_at_s, total)
        )
    return counted


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

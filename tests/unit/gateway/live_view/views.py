"""Values of the live view for tests, changed as given."""

from __future__ import annotations

from typing import Any

from paceline.runtime.gateway.fleet import ReplicaStatus
from paceline.runtime.gateway.fleet.status import LoadReading
from paceline.runtime.gateway.live_view.replica_views import ReplicaReading
from paceline.runtime.gateway.live_view.values import (
    FleetView,
    GovernorView,
    ReplicaView,
    Snapshot,
    TrafficView,
)
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.signals import ReplicaSignals


def view(name: str = "a", **changes: Any) -> ReplicaView:
    return ReplicaView(
        **{"name": name, "state": "ready", "reason": "", "breaker": "closed", **changes}
    )


def governed(name: str = "a", *, length: int = 4, **changes: Any) -> ReplicaView:
    """A replica with a governor; `changes` are those of the governor."""
    governor = GovernorView(policy="goodput", settled_length=length, **changes)
    return view(name, governor=governor, draft_length=length)


def snapshot(*views: ReplicaView, at_s: float = 0.0) -> Snapshot:
    return Snapshot(at_s, views, TrafficView(), FleetView())


def reading(
    name: str = "a",
    *,
    state: str = "ready",
    governor: dict[str, object] | None = None,
    load: LoadReading | None = None,
    signals: ReplicaSignals | None = None,
    **changes: Any,
) -> ReplicaReading:
    replica = Replica(name, "http://127.0.0.1:9", "model", state, **changes)  # type: ignore[arg-type]
    status = ReplicaStatus(replica, "url", name, "", False, False, None, load or LoadReading())
    return ReplicaReading(status, signals or ReplicaSignals(), 2, BreakerState.CLOSED, governor)

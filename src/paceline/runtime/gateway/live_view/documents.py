"""The JSON documents of the live view, for the page, `paceline top` and programs.

`/dashboard/state` and the first event of a stream are a history; each further event is an update.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.runtime.gateway.live_view.history import (
    REPLICA_SERIES,
    TRAFFIC_SERIES,
    History,
    Update,
    Values,
    replica_values,
    rounded,
    traffic_values,
)
from paceline.runtime.gateway.live_view.values import Event, GovernorView, ReplicaView, Snapshot

SCHEMA_VERSION = 1


def render_history(history: History) -> dict[str, Any]:
    """Everything that is kept; `number` is that of the newest snapshot, 0 before the first."""
    points, last = history.points, history.last
    names = {} if last is None else {view.name: None for view in last.snapshot.replicas}
    nothing: Values = (None,) * len(REPLICA_SERIES)
    return {
        "schema_version": SCHEMA_VERSION,
        "number": 0 if last is None else last.number,
        "points": {
            "at_s": [round(point.at_s, 1) for point in points],
            "traffic": _columns(TRAFFIC_SERIES, [point.traffic for point in points]),
            "fleet": _columns(REPLICA_SERIES, [point.fleet for point in points]),
            "replicas": {
                name: _columns(
                    REPLICA_SERIES, [point.replicas.get(name, nothing) for point in points]
                )
                for name in names
            },
        },
        "latest": None if last is None else render_snapshot(last.snapshot),
        "events": [render_event(event) for event in history.events],
    }


def render_update(update: Update) -> dict[str, Any]:
    """The newest snapshot, with the events since the one before."""
    return {
        "number": update.number,
        "latest": render_snapshot(update.snapshot),
        "events": [render_event(event) for event in update.events],
    }


def render_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """One moment. The names under `traffic` and `fleet` are those of the series of points."""
    return {
        "at_s": round(snapshot.at_s, 1),
        "at": _utc(snapshot.at_s),
        "traffic": dict(zip(TRAFFIC_SERIES, traffic_values(snapshot.traffic), strict=True)),
        "fleet": dict(zip(REPLICA_SERIES, replica_values(snapshot.fleet), strict=True)),
        "replicas": [_render_replica(view) for view in snapshot.replicas],
    }


def render_event(event: Event) -> dict[str, Any]:
    """One event."""
    return {
        "at_s": round(event.at_s, 1),
        "kind": event.kind,
        "replica": event.replica,
        "text": event.text,
        "is_problem": event.is_problem,
    }


def _render_replica(view: ReplicaView) -> dict[str, Any]:
    return {
        "name": view.name,
        "state": view.state,
        "reason": view.reason or None,
        "breaker": view.breaker,
        "model": view.model or None,
        "draft": view.draft,
        "in_flight": view.num_in_flight,
        "running": view.num_running,
        "waiting": view.num_waiting,
        "kv_usage_fraction": rounded(view.kv_usage_fraction),
        "restarts": view.num_restarts,
        "planned_restarts": None if view.num_restarts is None else view.num_planned_restarts,
        **dict(zip(REPLICA_SERIES, replica_values(view), strict=True)),
        "governor": None if view.governor is None else _render_governor(view.governor),
    }


def _render_governor(governor: GovernorView) -> dict[str, Any]:
    return {
        "policy": governor.policy,
        "ceiling": governor.ceiling,
        "reason": governor.reason,
        "uses_static_setting": governor.uses_static_setting,
        "length_changes": governor.num_changes,
        "last_change_reason": governor.change_reason,
        "forecast_step_ms": [rounded(1e3 * seconds) for seconds in governor.forecast_step_s],
        "step_slowdown": rounded(governor.step_slowdown),
    }


def _columns(names: Sequence[str], rows: Sequence[Values]) -> Mapping[str, list[float | None]]:
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _utc(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))

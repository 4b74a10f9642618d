"""Observations of a gateway: what its admin port would show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.servers.metrics_page import parse_page
from paceline.operations.doctor.readings.monitors import MonitorFile
from paceline.operations.doctor.readings.observation import Observation, Reading
from paceline.operations.doctor.readings.probe_result import MeasuredGain, ProbeResult

HEALTHY_REPLICA = {
    "paceline_replica_state": 2,
    "paceline_breaker_state": 0,
    "paceline_replica_restarts_total": 0,
    "paceline_replica_load_requests_running": 4,
    "paceline_replica_load_requests_waiting": 0,
    "paceline_replica_load_kv_usage_fraction": 0.3,
    "paceline_replica_load_preemptions_total": 0,
}
TOKENS = "paceline_replica_load_generation_tokens_total"
CHANGES = "paceline_replica_load_activity_changes_total"
Replicas = Mapping[str, Mapping[str, float | None]]


def page(replicas: Replicas, second: int, extra: str = "") -> str:
    """The page after some seconds; every replica gives 100 tokens a second. None: not shown."""
    lines = []
    for name, changes in replicas.items():
        counted = {TOKENS: 1000 + 100 * second, CHANGES: 50 + second}
        figures = {**HEALTHY_REPLICA, **counted, **changes}
        lines += [
            f'{metric}{{replica="{name}"}} {value}'
            for metric, value in figures.items()
            if value is not None
        ]
    return "\n".join(lines) + "\n" + extra


def observe_gateway(
    replicas: Replicas | None = None,
    *,
    seconds: int = 15,
    extra: Sequence[str] = ("",),
    governors: Sequence[Mapping[str, Mapping[str, Any]]] = ({},),
    entries: Sequence[Mapping[str, Any]] = (),
    probe: ProbeResult | None = None,
    monitors: Sequence[MonitorFile] = (),
) -> Observation:
    """One reading per second. `extra` and `governors`: of the first reading and of the others."""
    replicas = {"r0": {}, "r1": {}} if replicas is None else replicas
    readings = [
        Reading(
            float(second),
            parse_page(page(replicas, second, extra[0] if second == 0 else extra[-1])),
            governors[0] if second == 0 else governors[-1],
            entries,
        )
        for second in range(seconds + 1)
    ]
    return Observation("paceline", readings, None, probe, monitors=monitors)


def probed(**changes: Any) -> ProbeResult:
    """A probe that found nothing wrong."""
    gain = MeasuredGain(
        value=1.4, low=1.3, high=1.5, num_pairs=4, concurrency=8, tokens_per_s=200.0
    )
    fields: dict[str, Any] = {
        "num_requests": 40,
        "num_failed": 0,
        "model": "m",
        "workload": "hard",
        "temperature": 1.0,
        "gain": gain,
        "gain_reason": None,
        "num_streams_counted": 4,
    }
    return ProbeResult(**{**fields, **changes})

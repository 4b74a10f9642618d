"""`queue`: requests wait although the KV cache has room, in an engine or in the gateway.

Where all requests were those of the probe, there is no verdict: on a server that computes fewer at
a time, some of them wait, and on a larger one none do, whatever the clients would see.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check, for_each_engine
from paceline.operations.doctor.checks.waiting import queue_cost
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation, gauge_values, share_of
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Severity,
)

_MIN_SHARE = 0.5
"""Of the readings in which requests wait: less is a burst."""
_ROOM = 0.9
"""Of the KV cache. Above, `kv-cache-full` reports it."""
_GATEWAY_QUEUE = "paceline_queue_seconds"
_SLOW_QUEUE_S = 0.5
"""As the alert PacelineQueueSlow."""


def _judge(observation: Observation) -> Sequence[Finding]:
    def judge_one(name: str, readings: Sequence[EngineReading]) -> Finding | None:
        waiting = gauge_values(readings, lambda one: one.num_waiting)
        usage = [one.kv_usage_fraction or 0.0 for one in readings]
        share = share_of(readings, lambda one: (one.num_waiting or 0) >= 1)
        _require_clients(observation, readings)
        if share < _MIN_SHARE or max(usage) >= _ROOM:
            return None
        running = max(one.num_running or 0 for one in readings)
        return Finding(
            id="queue-in-engine",
            severity=Severity.WARNING,
            summary=(
                f"Requests wait in {name} while {100 * max(usage):.0f} % of its KV cache is used."
            ),
            evidence=(
                Evidence("requests waiting, mean", round(sum(waiting) / len(waiting), 1)),
                Evidence("requests running, at most", running),
                Evidence("KV cache in use, at most", round(100 * max(usage), 1), "%"),
            ),
            cost=queue_cost(observation, name, readings),
            cause=f"The engine computes at most {running:.0f} requests, and more arrive.",
            remedy=(
                "Raise max_num_seqs while the time per token allows it, raise "
                "max_num_batched_tokens if prompts are long, or add a replica"
            ),
            settings=("max_num_seqs", "max_num_batched_tokens"),
            subject=name,
        )

    findings = [*_gateway_queue(observation)]
    try:
        return [*findings, *for_each_engine(observation, judge_one)]
    except CannotJudge:
        if findings:
            return findings
        raise


def _require_clients(observation: Observation, readings: Sequence[EngineReading]) -> None:
    """Raise CannotJudge if the engine had no more requests at a time than the probe sends."""
    most = observation.probe and observation.probe.concurrency
    if not most:
        return
    running = max((one.num_running or 0 for one in readings), default=0)
    both = max(((one.num_running or 0) + (one.num_waiting or 0) for one in readings), default=0)
    if both > most:
        return
    waited = max((one.num_waiting or 0 for one in readings), default=0)
    own = f"; {waited:.0f} of them waited, because it computes {running:.0f}" if waited else ""
    raise CannotJudge(
        f"the only requests were those of the probe, at most {most} at a time{own}: watch it under "
        "the load of clients, without --probe"
    )


def _gateway_queue(observation: Observation) -> Sequence[Finding]:
    if observation.kind != "paceline":
        return ()
    try:
        queued = observation.histogram(_GATEWAY_QUEUE)
    except CannotJudge:
        return ()
    if observation.probe is not None and queued.count <= observation.probe.num_requests:
        return ()  # those of the probe
    bucket = queued.bucket_of(0.99)
    if bucket is None or bucket[0] < _SLOW_QUEUE_S or queued.mean is None:
        return ()
    return [
        Finding(
            id="queue-in-gateway",
            severity=Severity.WARNING,
            summary=f"One request in a hundred waits {bucket[0]:g} s or more in the gateway.",
            evidence=(
                Evidence("p99 of the time in the gateway", f"{bucket[0]:g} to {bucket[1]:g}", "s"),
                Evidence("requests", queued.count),
                Evidence(
                    "requests waiting now",
                    observation.last.page.total("paceline_admission_queue_length") or 0.0,
                ),
            ),
            cost=Cost(
                Basis.MEASURED,
                "mean time in the gateway before a replica",
                CostUnit.MS_TO_FIRST_TOKEN,
                1e3 * queued.mean,
            ),
            cause="All replicas have as many requests as the gateway sends them.",
            remedy="Add a replica, or raise the limit per replica if the engines have room",
            settings=("admission.max_in_flight",),
        )
    ]


CHECK = Check(
    "queue",
    "requests that wait although the KV cache has room",
    ("queue-in-engine", "queue-in-gateway"),
    _judge,
)

"""`unavailable`: replicas that take no requests, and engines that stand still or sleep."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    Basis,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Severity,
)

_MIN_STALL_S = {"vllm": 5.0, "paceline": 12.0}
"""A long prompt is computed in several steps, which are shorter. The gateway reads the figures of
its replicas every 5 s (`fleet.load_period_s`)."""
_STATES = {0.0: "down", 1.0: "starting"}
_READY = 2.0
_BREAKER_OPEN = 2.0


def _judge(observation: Observation) -> Sequence[Finding]:
    findings = [
        finding
        for name, readings in observation.engines.items()
        if (finding := _stalled(name, readings, observation))
    ]
    page = observation.last.page
    names = page.label_values("paceline_replica_state", "replica")
    lost = {}
    for name in names:
        state = page.total("paceline_replica_state", replica=name)
        breaker = page.total("paceline_breaker_state", replica=name)
        if state in _STATES:
            lost[name] = _STATES[state]
        elif breaker == _BREAKER_OPEN:
            lost[name] = "shut off by its breaker"
    reasons = {str(one.get("name")): one.get("reason") for one in observation.last.replicas}
    models = {str(one.get("name")): one.get("model") for one in observation.last.replicas}
    for name, why in lost.items():
        # A replica whose model the gateway has not read yet may serve any.
        peers = [
            one
            for one in names
            if None in (models.get(name), models.get(one)) or models[one] == models[name]
        ]
        num_ready = sum(_takes_requests(page, one) for one in peers)
        findings.append(_lost(name, why, reasons.get(name), num_ready, len(peers), len(names)))
    if page.select("vllm:engine_sleep_state", sleep_state="awake") and not page.total(
        "vllm:engine_sleep_state", sleep_state="awake"
    ):
        findings.append(_asleep())
    return findings


def _takes_requests(page: MetricsPage, name: str) -> bool:
    """Neither lost nor draining."""
    return (
        page.total("paceline_replica_state", replica=name) == _READY
        and page.total("paceline_breaker_state", replica=name) != _BREAKER_OPEN
    )


def _lost(
    name: str, why: str, reason: object, num_ready: int, num_peers: int, num_replicas: int
) -> Finding:
    """`num_peers` counts the replicas of its model, with itself; `num_replicas` those of all."""
    return Finding(
        id="replica-unavailable",
        severity=Severity.WARNING if num_ready else Severity.CRITICAL,
        summary=f"{name} is {why}: {num_ready} of {num_peers} replicas of its model take requests.",
        evidence=(
            Evidence("state", why),
            *((Evidence("reason", str(reason)),) if reason else ()),
        ),
        cost=Cost(
            Basis.MEASURED,
            "one of the replicas, counted as equal",
            CostUnit.PERCENT_OF_CAPACITY,
            100 / num_replicas,
            share=1 / num_replicas,
        ),
        cause=(
            "Its engine loads the model, after a restart that may have been asked for, or it does "
            "not start."
            if why == "starting"
            else "The replica cannot be reached, fails requests, or its engine does not start."
        ),
        remedy="Read its log (paceline doctor --log FILE names known causes) and restart it",
        settings=(),
        subject=name,
    )


def _stalled(
    name: str, readings: Sequence[EngineReading], observation: Observation
) -> Finding | None:
    """Requests run, and no figure has changed that changes while the engine computes."""
    duration_s = observation.duration_s
    busy = [one for one in readings if one.num_running and one.activity is not None]
    figures = {one.activity for one in busy}
    if len(busy) < len(readings) or len(figures) > 1 or duration_s < _MIN_STALL_S[observation.kind]:
        return None
    return Finding(
        id="engine-stalled",
        severity=Severity.CRITICAL,
        summary=f"{name} has computed nothing for {duration_s:.0f} s while requests run.",
        evidence=(
            Evidence("requests running", readings[-1].num_running or 0),
            Evidence("changes of its counters", 0),
            Evidence("observed for", round(duration_s, 1), "s"),
        ),
        cost=Cost(
            Basis.MEASURED,
            "no token was computed; engines counted as equal",
            CostUnit.PERCENT_OF_CAPACITY,
            100 / len(observation.engines),
            share=1 / len(observation.engines),
        ),
        cause="The engine core hangs, or one prompt takes longer than the observation.",
        remedy=(
            "Restart the engine; Paceline finds this by itself and moves the requests to other "
            "replicas"
        ),
        settings=("server.stall_timeout_s",),
        subject=name,
    )


def _asleep() -> Finding:
    return Finding(
        id="engine-asleep",
        severity=Severity.CRITICAL,
        summary="The engine sleeps: it holds no weights on the GPU and answers nothing.",
        evidence=(Evidence("awake", 0),),
        cost=Cost(
            Basis.MEASURED, "no request is computed", CostUnit.PERCENT_OF_CAPACITY, 100.0, share=1.0
        ),
        cause="POST /sleep was sent to the server.",
        remedy="POST /wake_up",
        settings=("enable_sleep_mode",),
    )


CHECK = Check(
    "unavailable",
    "replicas that take no requests, engines that stand still",
    ("replica-unavailable", "engine-stalled", "engine-asleep"),
    _judge,
)

"""`failing-requests`: requests that the server fails or refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation, ended_by_outcome
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Lacking,
    Severity,
)

_FAULTS = (
    "engine_error", "unavailable", "unreachable", "not_sent", "timed_out", "too_slow", "broken",
    "misdirected", "not_continued", "internal_error",
)  # fmt: skip
"""Outcomes that are the deployment's fault, not the request's or the client's."""
_REFUSALS = ("overloaded", "expired")
_MIN_REQUESTS = 5
"""For a share. Of fewer requests failed ones are a warning, unless all failed, two at least."""
_CRITICAL_SHARE = 0.01
"""Of the requests; fewer failures are a warning. Chosen empirically."""


def _judge(observation: Observation) -> Sequence[Finding]:
    is_vllm = observation.kind == "vllm"
    faults, refusals = (("error",), ()) if is_vllm else (_FAULTS, _REFUSALS)
    counts = ended_by_outcome(observation)
    total = sum(counts.values())
    if observation.probe is not None and total <= observation.probe.num_requests:
        refusals = ()  # of the probe's own requests, of which it may send too many
    findings = []
    failed = {value: counts[value] for value in faults if counts.get(value)}
    refused = {value: counts[value] for value in refusals if counts.get(value)}
    if total < _MIN_REQUESTS and not failed and not refused:
        raise CannotJudge(
            f"{total:.0f} requests ended; {_MIN_REQUESTS} are needed", Lacking.REQUESTS
        )
    if failed:
        findings.append(_failing(failed, total))
    if refused:
        findings.append(_refusing(refused, total))
    return findings


def _failing(failed: Mapping[str, float], total: float) -> Finding:
    number = sum(failed.values())
    is_sure = total >= _MIN_REQUESTS or (number == total and number > 1)
    return Finding(
        id="requests-fail",
        severity=(
            Severity.CRITICAL if is_sure and number >= _CRITICAL_SHARE * total else Severity.WARNING
        ),
        summary=f"{number:.0f} of {total:.0f} requests failed.",
        evidence=tuple(Evidence(f"ended as {name}", count) for name, count in failed.items()),
        cost=_cost(number, total),
        cause="The engines or the connections to them fail.",
        remedy="Read the log of the engines and of the gateway: paceline doctor --log FILE",
        settings=(),
    )


def _refusing(refused: Mapping[str, float], total: float) -> Finding:
    number = sum(refused.values())
    return Finding(
        id="requests-refused",
        severity=Severity.WARNING,
        summary=f"{number:.0f} of {total:.0f} requests were refused because of overload.",
        evidence=tuple(Evidence(f"ended as {name}", count) for name, count in refused.items()),
        cost=_cost(number, total),
        cause="More requests arrive than the replicas complete.",
        remedy="Add a replica (paceline plan says how many), or let requests wait longer",
        settings=("engine.replicas", "admission.max_queue_wait_s"),
    )


def _cost(number: float, total: float) -> Cost:
    return Cost(
        Basis.MEASURED,
        "requests that ended while the server was observed",
        CostUnit.PERCENT_OF_REQUESTS,
        100 * number / total,
        share=number / total,
    )


CHECK = Check(
    "failing-requests",
    "requests that fail or are refused",
    ("requests-fail", "requests-refused"),
    _judge,
)

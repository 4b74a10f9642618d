"""All checks, and the diagnosis that they give together."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks import cpu_kernels, duplicates, monitoring
from paceline.operations.doctor.checks.capacity import descriptors, kv_cache, queue
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.checks.fleet import (
    failing_requests,
    imbalance,
    lost,
    restarts,
    unavailable,
)
from paceline.operations.doctor.checks.governor import costs, drift, failing
from paceline.operations.doctor.checks.latency import first_requests, prefill_stalls
from paceline.operations.doctor.checks.log import messages
from paceline.operations.doctor.checks.speculation import data_parallel, length, loss
from paceline.operations.doctor.checks.versions import defects, releases
from paceline.operations.doctor.readings.observation import Observation, ended_requests
from paceline.operations.doctor.values import (
    CannotJudge,
    Diagnosis,
    Finding,
    NotJudged,
    order_by_cost,
)

CHECKS: tuple[Check, ...] = tuple(
    module.CHECK
    for module in (
        lost,
        unavailable,
        restarts,
        failing_requests,
        loss,
        length,
        data_parallel,
        failing,
        drift,
        costs,
        kv_cache,
        queue,
        imbalance,
        prefill_stalls,
        first_requests,
        descriptors,
        duplicates,
        releases,
        defects,
        cpu_kernels,
        monitoring,
        messages,
    )
)


def judge(observation: Observation) -> Diagnosis:
    """Apply all checks."""
    findings: list[Finding] = []
    passed, not_judged = [], []
    for check in CHECKS:
        try:
            found = check.judge(observation)
        except CannotJudge as reason:
            not_judged.append(NotJudged(check.id, str(reason), reason.lacking))
            continue
        findings += found
        if not found:
            passed.append(check.id)
    return Diagnosis(
        order_by_cost(findings), tuple(passed), tuple(not_judged), ended_requests(observation)
    )


def judge_log_only(lines: Sequence[str], reason: str) -> Diagnosis:
    """The diagnosis of a log alone; `reason` says why the server was not read.

    A log without a known message is no verdict: that of a server that does not answer ends with
    something that is wrong.
    """
    found = messages.judge_log(lines)
    others = [NotJudged(check.id, reason) for check in CHECKS if check is not messages.CHECK]
    if not found:
        others.insert(0, NotJudged(messages.CHECK.id, messages.describe_unknown(lines)))
    return Diagnosis(order_by_cost(found), (), tuple(others))

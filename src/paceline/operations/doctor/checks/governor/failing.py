"""`governor-failing`: the policy raises exceptions, or the engine runs with its static setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost


def _judge(observation: Observation) -> Sequence[Finding]:
    if not observation.last.governors:
        raise CannotJudge("the server shows no governor")
    return [
        finding
        for name, state in observation.last.governors.items()
        if (
            finding := _off(name, state)
            or _judge_one(name, observation.first.governors.get(name, {}), state)
        )
    ]


def _off(name: str, state: Mapping[str, Any]) -> Finding | None:
    """Of a vLLM server that started without the governor that was asked for."""
    reason = state.get("off_reason")
    if reason is None:
        return None
    return Finding(
        id="governor-failing",
        severity=Severity.WARNING,
        summary=f"The governor of {name} is off: vLLM drafts its static number of tokens.",
        evidence=(Evidence("reason, with N for each number", str(reason)),),
        cost=unknown_cost("what the policy would have chosen is not known"),
        cause="This release of vLLM does not have what Paceline relies on.",
        remedy="Use a release of vLLM that Paceline supports; the engine's log names the part",
        settings=("vllm",),
        subject=name,
    )


def _judge_one(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Finding | None:
    steps, safe, errors = (
        _increase(before, after, key)
        for key in ("steps_total", "safe_plan_steps_total", "policy_errors_total")
    )
    if not safe and not errors:
        return None
    fraction = f"{safe:.0f} of {steps:.0f}"
    return Finding(
        id="governor-failing",
        severity=Severity.WARNING,
        summary=f"The governor of {name} fails: {fraction} steps ran with the static draft length.",
        evidence=(
            Evidence("policy", str(after.get("policy"))),
            Evidence("steps with the static setting", fraction),
            Evidence("exceptions of the policy", errors),
            Evidence("reason of the plan", str(after.get("safe_plan_reason", after.get("reason")))),
        ),
        cost=unknown_cost("what the policy would have chosen is not known"),
        cause="The policy raises exceptions, or its measurements are missing or contradictory.",
        remedy=(
            "Read the engine's log for the exception, and set another policy until it is fixed"
        ),
        settings=("engine.policy",),
        subject=name,
    )


def _increase(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> float:
    now, then = after.get(key), before.get(key, 0)
    if not isinstance(now, int | float) or not isinstance(then, int | float):
        return 0.0
    return max(0.0, now - then)


CHECK = Check(
    "governor-failing",
    "a governor that falls back to the static draft length",
    ("governor-failing",),
    _judge,
)

"""Checks of Paceline's governor."""

from __future__ import annotations

import pytest

from paceline.doctor.checks.governor import drift, failing
from paceline.doctor.values import CannotJudge
from unit.doctor.gateways import observe_gateway


def _state(steps: int, safe: int, errors: int) -> dict[str, dict[str, object]]:
    return {
        "r0": {
            "policy": "goodput", "reason": "static setting", "steps_total": steps,
            "safe_plan_steps_total": safe, "policy_errors_total": errors,
        }
    }  # fmt: skip


def test_a_policy_that_fails_is_found() -> None:
    states = (_state(100, 50, 50), _state(300, 200, 200))
    (finding,) = failing.CHECK.judge(observe_gateway(governors=states))
    assert finding.summary == (
        "The governor of r0 fails: 150 of 200 steps ran with the static draft length."
    )
    assert finding.settings == ("engine.policy",)


def test_an_earlier_failure_is_no_finding() -> None:
    states = (_state(100, 50, 50), _state(300, 50, 50))
    assert not failing.CHECK.judge(observe_gateway(governors=states))


def test_without_a_governor_nothing_fails() -> None:
    with pytest.raises(CannotJudge, match="no governor"):
        failing.CHECK.judge(observe_gateway())


def _drift(lost: float) -> str:
    labels = 'replica="r0",category="code"'
    return (
        f"paceline_draft_drift_lost_tokens_per_second{{{labels}}} {lost}\n"
        f"paceline_draft_drift_acceptance{{{labels}}} 0.51\n"
        f"paceline_draft_drift_reference_acceptance{{{labels}}} 0.64\n"
        'paceline_governor_goodput_tokens_per_second{replica="r0"} 150\n'
    )


def test_a_draft_that_no_longer_fits_costs_what_the_governor_found() -> None:
    (finding,) = drift.CHECK.judge(observe_gateway(extra=(_drift(50),)))
    assert finding.id == "draft-drift"
    assert finding.cost.amount == 50
    assert finding.cost.share == pytest.approx(0.25)


@pytest.mark.parametrize("lost", [0, -12])
def test_a_draft_that_fits_is_no_finding(lost: float) -> None:
    assert not drift.CHECK.judge(observe_gateway(extra=(_drift(lost),)))


def test_without_the_watch_drift_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="drift"):
        drift.CHECK.judge(observe_gateway())

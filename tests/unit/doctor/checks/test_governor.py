"""Checks of Paceline's governor."""

from __future__ import annotations

import pytest

from paceline.doctor.checks.governor import drift, failing
from paceline.doctor.values import CannotJudge, Severity
from paceline.monitoring import alerts
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


def _drift(lost: float, lasting_s: float = 1800) -> str:
    labels = 'replica="r0",category="code"'
    return (
        f"paceline_draft_drift_lost_tokens_per_second{{{labels}}} {lost}\n"
        f"paceline_draft_drift_acceptance{{{labels}}} 0.51\n"
        f"paceline_draft_drift_acceptance_before_shift{{{labels}}} 0.64\n"
        f"paceline_draft_drift_lasting_seconds{{{labels}}} {lasting_s}\n"
        'paceline_governor_goodput_tokens_per_second{replica="r0"} 150\n'
    )


def test_a_draft_that_no_longer_fits_costs_what_the_governor_found() -> None:
    (finding,) = drift.CHECK.judge(observe_gateway(extra=(_drift(50),)))
    assert (finding.id, finding.severity) == ("draft-drift", Severity.WARNING)
    assert "fewer draft tokens of r0 than before, and that lasts" in finding.summary
    seen = {one.name: one.value for one in finding.evidence}
    assert seen == {"acceptance before": 0.64, "acceptance now": 0.51, "both have lasted": 1800}
    assert finding.settings == ("engine.draft",)
    assert finding.cost.amount == 50
    assert finding.cost.share == pytest.approx(0.25)


def test_a_shift_of_a_few_minutes_is_a_remark_with_the_same_cost() -> None:
    (finding,) = drift.CHECK.judge(observe_gateway(extra=(_drift(50, lasting_s=1799),)))
    assert (finding.severity, finding.cost.amount, finding.settings) == (Severity.INFO, 50, ())
    assert "30 minutes" in finding.remedy


def test_a_shift_lasts_for_the_doctor_when_it_does_for_the_alert() -> None:
    assert drift.LASTING_SHIFT_S == alerts.LASTING_SHIFT_S


@pytest.mark.parametrize("lost", [0, -12])
def test_a_draft_that_fits_is_no_finding(lost: float) -> None:
    assert not drift.CHECK.judge(observe_gateway(extra=(_drift(lost),)))


def test_without_the_watch_drift_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="drift"):
        drift.CHECK.judge(observe_gateway())

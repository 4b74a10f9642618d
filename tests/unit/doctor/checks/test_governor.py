"""Checks of Paceline's governor."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.checks.governor import costs, drift, failing
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, CostUnit, Severity
from paceline.operations.monitoring import alerts
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


def test_a_governor_that_is_off_is_found_with_its_reason() -> None:
    """As a vLLM server shows it whose release does not fit."""
    state = {"engine-0": {"off_reason": "Scheduler.schedule is missing"}}
    (finding,) = failing.CHECK.judge(observe_gateway(governors=(state,)))
    assert finding.evidence[0].value == "Scheduler.schedule is missing"


def _costs(measured: dict[str, float], *, steps: int = 500) -> Observation:
    """While it was observed. Lengths 0, 2 and 4, which take 10, 15 and 20 s by the table; before,
    steps of length 4 took three times as long, on a busy machine."""
    table = {"0": 10.0, "2": 15.0, "4": 20.0}
    before = {
        "length_steps": {"4": 900},
        "measured_step_seconds": {"4": 108.0},
        "table_step_seconds": {"4": 36.0},
    }
    added = {
        "length_steps": dict.fromkeys(table, steps),
        "measured_step_seconds": measured,
        "table_step_seconds": table,
    }
    after = {
        key: {length: value + before[key].get(length, 0) for length, value in values.items()}
        for key, values in added.items()
    }
    return observe_gateway(governors=({"r0": before}, {"r0": after}))


def test_a_table_with_other_proportions_than_the_steps_is_found() -> None:
    (finding,) = costs.CHECK.judge(_costs({"0": 10.0, "2": 15.0, "4": 32.0}))
    assert finding.summary == (
        "The table of costs of r0 does not fit: steps at draft length 4 take 1.6 times as long as "
        "at 0, compared with it."
    )


@pytest.mark.parametrize(
    "measured",
    [
        {"0": 10.0, "2": 15.0, "4": 20.0},
        {"0": 30.0, "2": 45.0, "4": 60.0},  # a machine that is slower as a whole
        {"0": 10.0, "2": 13.5, "4": 26.0},  # within what costs the governor little
    ],
)
def test_a_table_that_fits_is_no_finding(measured: dict[str, float]) -> None:
    assert not costs.CHECK.judge(_costs(measured))


def test_too_few_steps_say_nothing_about_a_table() -> None:
    with pytest.raises(CannotJudge, match="100 steps at each of two draft lengths"):
        costs.CHECK.judge(_costs({"0": 10.0, "2": 15.0, "4": 90.0}, steps=99))


_LABELS = 'replica="r0",category="code"'
_EVENTS = [
    {
        "category": category, "at": f"2027-01-15T08:0{number}:00+00:00",
        "acceptance_before": 0.64, "acceptance_now": 0.5,
    }
    for number, category in enumerate(("code", "code", "chat"))
]  # fmt: skip


def _drift(
    lost: float, lost_fraction: float | None, *, rate: float = 150, now: float = 0.51
) -> Observation:
    page = (
        f"paceline_draft_drift_lost_tokens_per_second{{{_LABELS}}} {lost}\n"
        f"paceline_draft_drift_acceptance{{{_LABELS}}} {now}\n"
        f'paceline_governor_goodput_tokens_per_second{{replica="r0"}} {rate}\n'
    )
    if lost_fraction is not None:
        page += f"paceline_draft_drift_lasting_lost_fraction{{{_LABELS}}} {lost_fraction}\n"
    if lost_fraction:
        page += f"paceline_draft_drift_acceptance_best_level{{{_LABELS}}} 0.66\n"
        page += f"paceline_draft_drift_acceptance_last_half_hour{{{_LABELS}}} 0.5\n"
    return observe_gateway(extra=(page,), governors=({"r0": {"drift": {"events": _EVENTS}}},))


def test_a_fall_that_lasts_costs_what_the_governor_says_of_it() -> None:
    """The last shift was another one, and a gain."""
    (finding,) = drift.CHECK.judge(_drift(-20, 0.25))
    assert (finding.id, finding.severity) == ("draft-drift", Severity.WARNING)
    assert finding.settings == ("engine.draft",)
    assert (finding.cost.amount, finding.cost.unit) == (50, CostUnit.TOKENS_PER_S)
    assert finding.cost.share == 0.25
    assert {one.name: one.value for one in finding.evidence} == {
        "acceptance at the best level": 0.66, "acceptance in the last half hour": 0.5,
        "acceptance now": 0.51,
    }  # fmt: skip


def test_without_present_tokens_a_fall_costs_its_share_of_the_capacity() -> None:
    (finding,) = drift.CHECK.judge(_drift(0, 0.25, rate=0))
    assert (finding.cost.amount, finding.cost.unit) == (25, CostUnit.PERCENT_OF_CAPACITY)


def test_a_shift_is_a_remark_with_its_time_and_cost() -> None:
    """The best half hour costs 5 % less, which no draft is trained for."""
    (finding,) = drift.CHECK.judge(_drift(50, 0.05))
    assert (finding.severity, finding.settings) == (Severity.INFO, ())
    assert (finding.cost.amount, finding.cost.share) == (50, pytest.approx(0.25))
    assert {one.name: one.value for one in finding.evidence} == {
        "acceptance before": 0.64, "acceptance after": 0.5, "acceptance now": 0.51,
        "found at": "2027-01-15T08:01:00+00:00",
    }  # fmt: skip


def test_a_shift_from_which_acceptance_has_come_back_is_no_finding() -> None:
    """It was 0.64 before."""
    assert not drift.CHECK.judge(_drift(50, 0, now=0.63))
    assert drift.CHECK.judge(_drift(50, 0, now=0.62))


def test_a_gateway_that_compares_no_half_hours_gives_a_warning_about_a_shift() -> None:
    (finding,) = drift.CHECK.judge(_drift(50, None))
    assert (finding.severity, finding.settings) == (Severity.WARNING, ("engine.draft",))
    assert finding.cost.amount == 50


def test_a_fall_is_worth_a_warning_where_it_is_worth_an_alert() -> None:
    assert drift.MIN_LOST_FRACTION == alerts.MIN_LOST_FRACTION


@pytest.mark.parametrize(("lost", "lost_fraction"), [(0, 0), (-12, 0), (-12, 0.05), (0, None)])
def test_a_draft_that_fits_is_no_finding(lost: float, lost_fraction: float | None) -> None:
    assert not drift.CHECK.judge(_drift(lost, lost_fraction))


def test_without_the_watch_drift_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="drift"):
        drift.CHECK.judge(observe_gateway())

"""The alert rules: valid for promtool, complete, and firing when and only when they should."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline.operations.monitoring.alerts import (
    NOT_COUNTED,
    AlertOptions,
    alerts,
    render_alert_rules,
)
from paceline.operations.monitoring.command import RULES_FILE
from paceline.operations.monitoring.queries import MetricQueries
from paceline.runtime.gateway.outcomes import Outcome
from unit.monitoring.promtool import run_promtool

CASES = Path(__file__).with_name("alerts.promtool.yaml")
ALERTS = alerts(AlertOptions(), MetricQueries())


def rules(**options: Any) -> list[dict[str, Any]]:
    document = yaml.safe_load(render_alert_rules(AlertOptions(**options)))
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / RULES_FILE).write_text(render_alert_rules(AlertOptions()))
    run_promtool("check", "rules", "--lint-fatal", RULES_FILE, cwd=tmp_path)


def test_each_alert_fires_after_its_time_and_not_without_its_condition(tmp_path: Path) -> None:
    """The cases have the shipped durations, minute by minute."""
    (tmp_path / RULES_FILE).write_text(render_alert_rules(AlertOptions()))
    shutil.copy(CASES, tmp_path)
    run_promtool("test", "rules", CASES.name, cwd=tmp_path)


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = yaml.safe_load(CASES.read_text())["tests"]
    checks = [check for case in cases for check in case["promql_expr_test"]]
    firing, silent = (
        {check["expr"].split('"')[1] for check in checks if bool(check["exp_samples"]) is fires}
        for fires in (True, False)
    )
    names = {alert.name for alert in ALERTS}
    assert (firing, silent) == (names, names)


def test_each_alert_says_what_it_costs_and_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
    for alert in ALERTS:
        assert alert.cost.endswith(".")
        assert alert.remedy.endswith(".")
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


def test_options_change_job_budget_and_times() -> None:
    by_name = {rule["alert"]: rule for rule in rules(job="llm", availability=0.99, hold="10s")}
    assert by_name["PacelineGatewayDown"]["expr"] == 'up{job="llm"} == 0 or absent(up{job="llm"})'
    assert 'up{job="llm"} == 1' in by_name["PacelineNoReplicaReady"]["expr"]
    assert "> 0.144 and" in by_name["PacelineErrorBudgetBurnsFast"]["expr"]  # 14.4 x 0.01
    assert by_name["PacelineQueueSlow"]["for"] == "10s"
    assert by_name["PacelineEngineRestarted"]["for"] == "0s"
    with pytest.raises(ValueError, match="availability is 1"):
        AlertOptions(availability=1)


def test_an_error_budget_so_large_that_an_alert_could_not_fire_is_refused() -> None:
    """The fast alert needs 14.4 times the budget: of 0.07 more than all requests."""
    with pytest.raises(ValueError, match=r"availability is 0\.93; it must be at least 0\.95"):
        AlertOptions(availability=0.93)
    for rule in rules(availability=0.95):
        if "Burns" in rule["alert"]:
            limits = [float(text) for text in re.findall(r"> ([0-9.]+) and", rule["expr"])]
            assert len(limits) == 2
            assert max(limits) < 1


def test_every_outcome_is_classified_for_the_error_budget() -> None:
    """A new outcome belongs here, and into NOT_COUNTED if the client causes it."""
    failed = {
        Outcome.ENGINE_ERROR, Outcome.UNAVAILABLE, Outcome.OVERLOADED, Outcome.EXPIRED,
        Outcome.UNREACHABLE, Outcome.NOT_SENT, Outcome.TIMED_OUT, Outcome.TOO_SLOW,
        Outcome.BROKEN, Outcome.MISDIRECTED, Outcome.NOT_CONTINUED, Outcome.SHUT_DOWN,
        Outcome.INTERNAL_ERROR,
    }  # fmt: skip
    assert failed.isdisjoint(NOT_COUNTED)
    assert failed | set(NOT_COUNTED) | {Outcome.COMPLETED} == set(Outcome)

"""The checks together: order, exit code, and silence on healthy deployments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from paceline.operations.doctor.checks import CHECKS, judge, judge_log_only
from paceline.operations.doctor.output.lines import render_cost
from paceline.operations.doctor.values import (
    Basis,
    Cost,
    CostUnit,
    Diagnosis,
    Finding,
    NotJudged,
    Severity,
    exit_code_of,
    order_by_cost,
    unknown_cost,
)
from paceline.runtime.config.tree import Settings
from unit.doctor.gateways import observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

PROJECT = Path(__file__).parents[3]


def _finding(name: str, severity: Severity, share: float | None) -> Finding:
    cost = Cost(Basis.MEASURED, "counted", CostUnit.TOKENS_PER_S, 1.0, share=share)
    return Finding(name, severity, "", (), cost, "", "", ())


def test_critical_findings_come_first_then_the_largest_share() -> None:
    ordered = order_by_cost(
        [
            _finding("unknown", Severity.WARNING, None),
            _finding("small", Severity.WARNING, 0.1),
            _finding("remark", Severity.INFO, 0.9),
            _finding("large", Severity.WARNING, 0.5),
            _finding("broken", Severity.CRITICAL, 0.01),
        ]
    )
    assert [one.id for one in ordered] == ["broken", "large", "small", "unknown", "remark"]


@pytest.mark.parametrize(
    ("severities", "code"),
    [
        ([], 0),
        ([Severity.INFO], 0),
        ([Severity.INFO, Severity.WARNING], 1),
        ([Severity.WARNING, Severity.CRITICAL], 3),
    ],
)
def test_the_exit_code_is_the_worst_severity(severities: list[Severity], code: int) -> None:
    findings = tuple(_finding("x", severity, None) for severity in severities)
    assert exit_code_of(Diagnosis(findings, (), ())) == code


def test_a_healthy_vllm_server_has_no_finding() -> None:
    diagnosis = judge(observe_vllm(SimulatedEngine(first_tokens_s=(0.05,) * 16)))
    assert diagnosis.findings == ()
    assert "speculation-loss" in diagnosis.passed


def test_a_healthy_gateway_has_no_finding() -> None:
    states = {name: {"policy": "goodput", "steps_total": 5} for name in ("r0", "r1")}
    diagnosis = judge(observe_gateway(governors=(states,), probe=probed()))
    assert diagnosis.findings == ()


def test_every_check_passes_finds_or_says_why_not() -> None:
    diagnosis = judge(observe_vllm(SimulatedEngine(kv_usage=0.97, preemptions_per_s=1)))
    judged = {*diagnosis.passed, *(one.check for one in diagnosis.not_judged), "kv-cache-full"}
    assert judged == {check.id for check in CHECKS}
    assert all(one.reason for one in diagnosis.not_judged)


def test_several_faults_are_all_found() -> None:
    engine = SimulatedEngine(
        kv_usage=0.97, preemptions_per_s=1, reached=(0.0,) * 8, draft_ms=2, failed_per_s=1
    )
    diagnosis = judge(observe_vllm(engine, log_lines=["CUDA out of memory"]))
    assert {one.id for one in diagnosis.findings} == {
        "requests-fail", "speculation-loses", "kv-cache-full", "log-out-of-memory",
    }  # fmt: skip
    assert diagnosis.findings[0].severity is Severity.CRITICAL


def test_a_log_alone_can_be_judged() -> None:
    diagnosis = judge_log_only(["CUDA out of memory"], "it does not answer")
    assert [one.id for one in diagnosis.findings] == ["log-out-of-memory"]
    assert NotJudged("unavailable", "it does not answer") in diagnosis.not_judged


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "it is empty"),
        (
            ["INFO 11-02 10:00:01 [api_server.py:1977] vLLM API server version 0.32.0"],
            "has a known",
        ),
        (["Traceback (most recent call last):", "KeyError: 'layers.7'"], "is KeyError: 'layers.7'"),
    ],
)
def test_a_log_alone_without_a_known_message_is_no_verdict(lines: list[str], reason: str) -> None:
    diagnosis = judge_log_only(lines, "it does not answer")
    assert not diagnosis.has_verdict
    assert diagnosis.not_judged[0].check == "log"
    assert reason in diagnosis.not_judged[0].reason


def test_finding_ids_are_unique_and_documented() -> None:
    ids = [finding for check in CHECKS for finding in check.finding_ids]
    assert len(ids) == len(set(ids))
    page = (PROJECT / "docs" / "how-to" / "doctor.md").read_text()
    assert [name for name in ids if f"`{name}`" not in page] == []


def test_the_settings_of_paceline_exist() -> None:
    """In any module of the checks, a setting named like one of Paceline's is one."""
    sections = Settings.model_fields
    named = set()
    for file in (PROJECT / "src" / "paceline" / "operations" / "doctor").rglob("*.py"):
        named |= set(re.findall(rf'"((?:{"|".join(sections)})\.\w+)"', file.read_text()))
    assert len(named) >= 5
    for name in named:
        section, _, field = name.partition(".")
        model = sections[section].annotation
        assert hasattr(model, "model_fields")
        assert field in model.model_fields, name


def test_a_cost_names_its_basis() -> None:
    cost = Cost(Basis.ESTIMATED, "a guess", CostUnit.TOKENS_PER_S, 123.4, 1.234, 2000.0)
    assert render_cost(cost) == "123 tokens/s (1.23 to 2000), estimated: a guess"
    assert render_cost(unknown_cost("no figure")) == "unknown: no figure"


@pytest.mark.parametrize(
    "arguments",
    [
        (Basis.MEASURED, "counted"),
        (Basis.UNKNOWN, "why", CostUnit.TOKENS_PER_S, 1.0),
        (Basis.MEASURED, "counted", None, 1.0),
        (Basis.MEASURED, "counted", CostUnit.TOKENS_PER_S, 1.0, None, None, 1.5),
    ],
)
def test_an_inconsistent_cost_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"cost|amount|share"):
        Cost(*arguments)  # type: ignore[arg-type]

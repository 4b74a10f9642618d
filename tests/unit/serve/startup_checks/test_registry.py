"""All checks together, and how their results are printed."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from paceline.runtime.config import load_settings
from paceline.runtime.config.tree import CheckName
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.serve.plan import make_plan
from paceline.runtime.serve.startup_checks import startup
from paceline.runtime.serve.startup_checks.checks.registry import CHECKS, judge
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import Installation, StartupFacts
from paceline.runtime.serve.startup_checks.report import (
    refusals,
    render_report,
    render_summary,
    warnings,
)
from paceline.runtime.serve.startup_checks.values import CheckResult, Verdict
from unit.serve.startup_checks.machines import CPU, GPU

RESULTS = [
    CheckResult("vllm", Verdict.PASSED, "vLLM 0.32.0"),
    CheckResult("ray", Verdict.REFUSED, "no Ray on CPUs"),
    CheckResult("shared-memory", Verdict.WARNING, "too small \x1b[31m"),
]


def verdicts(facts: StartupFacts, skipped: tuple[str, ...] = ()) -> dict[str, Verdict]:
    return {result.check: result.verdict for result in judge(facts, skipped)}


def test_the_setting_knows_the_names_of_all_checks() -> None:
    assert tuple(CHECKS) == get_args(CheckName)


@pytest.mark.parametrize("facts", [CPU, GPU])
def test_nothing_is_wrong_where_everything_fits(facts: StartupFacts) -> None:
    assert not {Verdict.WARNING, Verdict.REFUSED} & set(verdicts(facts).values())


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_machine_of_which_nothing_is_known_is_refused_nothing(device: str) -> None:
    launch = EngineLaunch("/m", {"method": "draft_model", "model": "/d"}, tensor_parallel=8)
    unknown = StartupFacts(device, Installation(), 1, launch)  # type: ignore[arg-type]
    found = verdicts(unknown)
    assert {found.pop("formats")} == {Verdict.PASSED}
    assert set(found.values()) == {Verdict.NOT_JUDGED}


def test_without_engines_only_the_gateway_is_judged() -> None:
    facts = replace(GPU, launch=None, descriptors=(100, 50), num_engines=0)
    assert verdicts(facts) == {"descriptors": Verdict.PASSED}


def test_a_skipped_check_is_left_out() -> None:
    launch = EngineLaunch("/models/target", {}, executor="ray")
    facts = replace(CPU, launch=launch)
    assert verdicts(facts)["ray"] is Verdict.REFUSED
    assert "ray" not in verdicts(facts, ("ray",))


def test_cautions_about_number_formats_are_warnings() -> None:
    facts = replace(CPU, format_cautions=("nobody has tried fp4 here",))
    (found,) = (result for result in judge(facts) if result.check == "formats")
    assert (found.verdict, found.text) == (Verdict.WARNING, "nobody has tried fp4 here")


def test_the_report_has_a_line_for_each_check_and_the_numbers() -> None:
    lines = render_report(RESULTS).splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["passed", "vllm"], ["refused", "ray"], ["warning", "shared-memory"]
    ]  # fmt: skip
    assert lines[3] == "3 checks: 1 passed, 1 warning, 1 refused"
    assert "\x1b" not in lines[2]


def test_a_refusal_says_how_to_leave_the_check_out() -> None:
    assert refusals(RESULTS) == ["no Ray on CPUs (check ray; engine.skip_checks leaves it out)"]
    assert len(warnings(RESULTS)) == 1


def test_a_fault_of_a_check_stops_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> StartupFacts:
        raise KeyError("added_tokens")

    hardware = replace(read_hardware(), device="cpu")
    plan = make_plan(
        load_settings({}, {}).settings,
        hardware,
        server_module="some.module",
        run_folder=tmp_path,
        log_folder=tmp_path,
    )
    assert startup.check_startup(plan, hardware)
    monkeypatch.setattr(startup, "gather_facts", fail)
    with caplog.at_level(logging.WARNING):
        assert startup.check_startup(plan, hardware) == []
    assert "added_tokens" in caplog.text


def test_the_summary_names_the_model_the_drafter_and_the_ports() -> None:
    ports = (("127.0.0.1", 8000, "port"), ("127.0.0.1", 8001, "admin_port"))
    summary = render_summary(
        model="m", drafter="n-gram: as configured", ports=ports, taken={"port"}
    )
    assert summary.splitlines() == [
        "model       m",
        "drafter     n-gram: as configured",
        "data port   127.0.0.1:8000, not free",
        "admin port  127.0.0.1:8001, free",
    ]


def test_the_summary_of_a_gateway_alone_has_no_drafter() -> None:
    ports = (("::1", 0, "port"),)
    summary = render_summary(model=None, drafter="", ports=ports, taken=())
    assert summary.splitlines() == [
        "model      none of its own: remote replicas only",
        "data port  ::1, any free port",
    ]

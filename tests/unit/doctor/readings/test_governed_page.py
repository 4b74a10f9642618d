"""A vLLM server whose page has the plugin's metrics."""

from __future__ import annotations

from paceline.foundation.servers.metrics_page import parse_page
from paceline.operations.doctor.checks.governor import failing
from paceline.operations.doctor.readings.engines import governors_on, read_engines
from paceline.operations.doctor.readings.observation import Observation, Reading


def _page(safe_plan_steps: int) -> str:
    label = 'replica="engine-0"'
    return (
        'vllm:num_requests_running{engine="0"} 4\n'
        f"paceline_governor_steps_total{{{label}}} {100 + safe_plan_steps}\n"
        f"paceline_governor_safe_plan_steps_total{{{label}}} {safe_plan_steps}\n"
        f'paceline_governor_policy_info{{{label},policy="off"}} 0\n'
        f'paceline_governor_policy_info{{{label},policy="goodput"}} 1\n'
        f'paceline_governor_safe_plan_info{{{label},reason="because of ValueError"}} 1\n'
    )


def test_the_policy_of_a_plain_server_is_read_from_its_page() -> None:
    page = parse_page(_page(0))
    assert page.kind == "vllm"
    (engine,) = read_engines(page, governors_on(page)).values()
    assert (engine.policy, engine.chooses_its_length, engine.num_running) == ("goodput", True, 4)


def test_the_checks_of_governors_judge_a_plain_server() -> None:
    pages = [parse_page(_page(number)) for number in (0, 50)]
    readings = [Reading(at, page, governors_on(page)) for at, page in enumerate(pages)]
    (finding,) = failing.CHECK.judge(Observation("vllm", readings))
    assert finding.subject == "engine-0"
    assert "50 of 50 steps" in finding.summary
    assert finding.evidence[-1].value == "because of ValueError"


def test_a_server_without_the_plugin_has_no_governor() -> None:
    assert governors_on(parse_page("vllm:num_requests_running 4\n")) == {}

"""Alerts and panels whose metric a server does not have."""

from __future__ import annotations

import json

import pytest
import yaml

from paceline.operations.doctor.checks import monitoring
from paceline.operations.doctor.readings.monitors import (
    Monitor,
    MonitorFile,
    monitors_of_dashboards,
    monitors_of_rules,
)
from paceline.operations.doctor.values import CannotJudge, Severity
from paceline.operations.monitoring.alerts import AlertOptions, render_alert_rules
from paceline.operations.monitoring.dashboards import DASHBOARDS
from paceline.operations.monitoring.dashboards.model import render_dashboard
from paceline.operations.monitoring.queries import MetricQueries
from paceline.runtime.gateway.metrics.definitions import metric_definitions
from unit.doctor.gateways import observe_gateway
from unit.doctor.simulated import SimulatedEngine, observe_vllm

DECLARED = "".join(
    f"# HELP {one.name} x\n# TYPE {one.name} {one.kind}\n" for one in metric_definitions().values()
)
"""A gateway's page before any of its metrics has a sample."""
GONE = "vllm:gpu_cache_usage_perc"
"""As vLLM named it until 0.10."""


def rules(*expressions: str, recorded: str | None = None) -> MonitorFile:
    monitors = [Monitor("alert", f"A{index}", (one,)) for index, one in enumerate(expressions)]
    if recorded is not None:
        monitors.append(Monitor("recording rule", recorded, ("vllm:num_requests_running",)))
    return MonitorFile("rules.yaml", tuple(monitors))


def test_the_own_alerts_and_dashboards_fit_the_gateway() -> None:
    queries = MetricQueries()
    files = [
        MonitorFile("r", monitors_of_rules([yaml.safe_load(render_alert_rules(AlertOptions()))]))
    ]
    files += [
        MonitorFile(name, monitors_of_dashboards([json.loads(render_dashboard(make(queries)))]))
        for name, make in DASHBOARDS.items()
    ]
    assert not monitoring.CHECK.judge(observe_gateway(extra=(DECLARED,), monitors=files))


def test_a_renamed_metric_names_the_alerts_that_need_it() -> None:
    page = DECLARED.replace("paceline_queue_seconds", "paceline_queue_duration_seconds")
    document = yaml.safe_load(render_alert_rules(AlertOptions()))
    file = MonitorFile("paceline.rules.yaml", monitors_of_rules([document]))
    (finding,) = monitoring.CHECK.judge(observe_gateway(extra=(page,), monitors=[file]))
    assert (finding.id, finding.severity) == ("monitoring-stale", Severity.WARNING)
    assert finding.subject == "paceline.rules.yaml"
    (evidence,) = finding.evidence
    assert evidence.name == "alert 'PacelineQueueSlow' needs"
    assert evidence.value == "paceline_queue_seconds_bucket"


def test_each_file_has_a_finding_of_its_own() -> None:
    first = rules(
        "vllm:num_requests_running > 0", f"{GONE} > 0", f"vllm:num_requests_swapped > {GONE}"
    )
    second = MonitorFile("b.json", (Monitor("panel", "P", (GONE,)),))
    findings = monitoring.CHECK.judge(observe_vllm(monitors=[first, second]))
    assert [one.subject for one in findings] == ["rules.yaml", "b.json"]
    assert [(one.name, one.value) for one in findings[0].evidence] == [
        ("alert 'A1' needs", f"{GONE} (now vllm:kv_cache_usage_perc)"),
        (
            "alert 'A2' needs",
            f"vllm:num_requests_swapped, {GONE} (now vllm:kv_cache_usage_perc)",
        ),
    ]  # fmt: skip
    assert findings[0].summary.startswith("2 of 3 alerts and panels")


@pytest.mark.parametrize(
    "expression",
    [
        "vllm:time_to_first_token_seconds_bucket + vllm:time_to_first_token_seconds_count",
        "vllm:gpu_cache_usage_perc or vllm:kv_cache_usage_perc",
        "vllm:running:mean > vllm:num_requests_running",  # of a recording rule in the other file
        "vllm:num_requests_running and node_load1 > 4",  # of another exporter
        "vllm:lora_requests_info > vllm:num_requests_running",  # declared, without a sample
        "vllm:ttft:p99_5m > vllm:num_requests_running",  # of a recording rule in no given file
        "vllm:kv_block_lifetime_seconds_bucket + vllm:num_requests_running",  # a feature
        "paceline_engine_revision_info * vllm:num_requests_running",  # without the plugin
    ],
)
def test_metrics_that_exist_or_need_not_are_no_finding(expression: str) -> None:
    engine = SimulatedEngine(extra="# TYPE vllm:lora_requests_info gauge\n")
    files = [rules(expression), rules(recorded="vllm:running:mean")]
    assert not monitoring.CHECK.judge(observe_vllm(engine, monitors=files))


def test_a_counter_without_its_ending_is_missed() -> None:
    engine = SimulatedEngine(extra="# TYPE vllm:x_total counter\nvllm:x_total 1\n")
    assert not monitoring.CHECK.judge(observe_vllm(engine, monitors=[rules("vllm:x_total")]))
    (finding,) = monitoring.CHECK.judge(observe_vllm(engine, monitors=[rules("rate(vllm:x[5m])")]))
    assert finding.evidence[0].value == "vllm:x"


def test_metrics_of_speculation_need_a_server_that_speculates() -> None:
    file = rules("vllm:spec_decode_num_emitted_tokens_total", "vllm:num_requests_running")
    assert monitoring.CHECK.judge(observe_vllm(monitors=[file]))
    undrafted = SimulatedEngine(reached=())
    assert not monitoring.CHECK.judge(observe_vllm(undrafted, monitors=[file]))


ROUTERS = (
    "vllm:current_qps",
    "vllm:healthy_pods_total",
    "vllm:avg_decoding_length",
    "vllm:load_balanced_inflight_requests",
    "vllm:output_tokens_total",
    "vllm:ttft_p99",  # a recording rule's, with one colon
    "vllm:tenant_cost_usd_total",
)
"""Names with vLLM's prefix that vLLM never had."""


@pytest.mark.parametrize("name", ROUTERS)
def test_metrics_of_other_programs_with_the_prefix_are_not_judged(name: str) -> None:
    file = rules(f"sum(rate({name}[5m])) > 1", "vllm:num_requests_running > 0")
    assert not monitoring.CHECK.judge(observe_vllm(monitors=[file]))


@pytest.mark.parametrize(
    "name",
    [
        "vllm:num_requests_waitin",
        "vllm:gpu_kv_cache_usage_perc",
        "vllm:prompt_tokens",  # without _total
        "vllm:num_requests_running_total",
        "vllm:time_per_output_token_seconds_bucket",  # removed in 0.15
        "vllm:num_requests_waiting_by_reason",  # of a later release than the server's
    ],
)
def test_names_that_are_meant_for_vllm_are_judged(name: str) -> None:
    (finding,) = monitoring.CHECK.judge(observe_vllm(monitors=[rules(f"{name} > 1")]))
    assert str(finding.evidence[0].value).startswith(name)


def test_a_former_name_beside_those_of_a_router_is_the_routers() -> None:
    """vLLM production-stack's router shows vllm:num_requests_swapped."""
    swapped = rules("vllm:num_requests_swapped > 0")
    both = rules("vllm:num_requests_swapped > 0", "vllm:current_qps", "vllm:num_requests_running")
    assert monitoring.CHECK.judge(observe_vllm(monitors=[swapped]))
    assert not monitoring.CHECK.judge(observe_vllm(monitors=[both]))


def test_absence_of_a_metric_that_is_gone_is_always_true() -> None:
    (finding,) = monitoring.CHECK.judge(observe_vllm(monitors=[rules(f"absent({GONE})")]))
    assert finding.evidence[0].value == f"{GONE} (in absent(): always true)"
    present = rules("absent(vllm:num_requests_running)")
    assert not monitoring.CHECK.judge(observe_vllm(monitors=[present]))


def test_without_files_or_metrics_of_this_server_nothing_is_judged() -> None:
    with pytest.raises(CannotJudge, match="--rules FILE or --dashboard FILE"):
        monitoring.CHECK.judge(observe_vllm())
    with pytest.raises(CannotJudge, match="no metric that this server would show"):
        monitoring.CHECK.judge(observe_vllm(monitors=[rules("up == 0", "paceline_x")]))

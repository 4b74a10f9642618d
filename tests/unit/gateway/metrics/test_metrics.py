"""Names of all metrics, and the values of those about failures and overload."""

from __future__ import annotations

from paceline.runtime.gateway.admission import RefusalReason
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.replica_definitions import ALL_REPLICA_METRICS
from paceline.runtime.gateway.metrics.request_times import RequestTimes
from paceline.runtime.gateway.outcomes import Continuation, Outcome
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.usage import Usage

NAMES = {
    "paceline_admission_queue_length", "paceline_admission_refused_total",
    "paceline_breaker_state", "paceline_cached_prompt_tokens_total",
    "paceline_continuations_total",
    "paceline_draft_drift_acceptance", "paceline_draft_drift_acceptance_best_level",
    "paceline_draft_drift_acceptance_last_half_hour",
    "paceline_draft_drift_events_total", "paceline_draft_drift_lasting_lost_fraction",
    "paceline_draft_drift_evidence_fraction", "paceline_draft_drift_lost_tokens_per_second",
    "paceline_draft_drift_reference_acceptance",
    "paceline_buffered_bytes",
    "paceline_captured_requests_total",

    "paceline_governor_accepted_fraction", "paceline_governor_accepted_tokens_total",
    "paceline_governor_draft_length", "paceline_governor_draft_length_ceiling",
    "paceline_governor_draft_length_changes_total", "paceline_governor_drafted_tokens_total",
    "paceline_governor_expected_goodput_tokens_per_second",
    "paceline_governor_exploring_seconds_total", "paceline_governor_goodput_tokens_per_second",
    "paceline_governor_last_change_info",
    "paceline_governor_off_seconds_total",
    "paceline_governor_policy_errors_total", "paceline_governor_safe_plan_seconds_total",
    "paceline_governor_safe_plan_steps_total", "paceline_governor_seconds_total",
    "paceline_governor_steps_total", "paceline_output_tokens_total",
    "paceline_prompt_tokens_total", "paceline_queue_seconds",
    "paceline_replica_load_activity_changes_total",
    "paceline_replica_load_generation_tokens_total", "paceline_replica_load_kv_usage_fraction",
    "paceline_replica_load_preemptions_total", "paceline_replica_load_prefix_hit_fraction",
    "paceline_replica_load_requests_running", "paceline_replica_load_requests_waiting",
    "paceline_replica_draft_info", "paceline_replica_inter_token_seconds",
    "paceline_replica_restarts_total", "paceline_replica_state",
    "paceline_requests_in_flight",
    "paceline_requests_total", "paceline_retries_total", "paceline_time_per_output_token_seconds",
    "paceline_time_to_first_token_seconds", "paceline_worker_restarts_total",
    "paceline_replica_unplanned_restarts_total",
    "paceline_open_files", "paceline_open_files_limit",
}  # fmt: skip
"""Dashboards and alerts depend on these: a name may be added, never changed or removed."""


def rendered(metrics: GatewayMetrics) -> str:
    return metrics.render([], {}, {}, {}).decode()


def test_no_metric_name_is_removed() -> None:
    types = [line.split() for line in rendered(GatewayMetrics()).splitlines() if "# TYPE" in line]
    shown = {name for _, _, name, _ in types if not name.endswith("_created")}
    assert shown >= NAMES
    assert all(name.startswith("paceline_") for name in shown)


def test_replica_metrics_are_defined_once() -> None:
    names = [definition.name for definition in ALL_REPLICA_METRICS]
    assert len(set(names)) == len(names)


def test_breaker_states_replace_the_previous_ones() -> None:
    metrics = GatewayMetrics()
    metrics.set_breaker_states({"r0": BreakerState.OPEN, "r1": BreakerState.HALF_OPEN})
    text = rendered(metrics)
    assert 'paceline_breaker_state{replica="r0"} 2.0' in text
    assert 'paceline_breaker_state{replica="r1"} 1.0' in text
    metrics.set_breaker_states({"r1": BreakerState.CLOSED})
    text = rendered(metrics)
    assert 'replica="r0"' not in text
    assert 'paceline_breaker_state{replica="r1"} 0.0' in text


def test_the_drafter_of_a_local_engine_is_a_label() -> None:
    engine = Replica("engine-0", "/e.sock", "m", "ready", draft="/drafts/mine")
    remote = Replica("far", "http://far", "m", "ready")
    lines = GatewayMetrics().render([engine, remote], {}, {}, {}).decode().splitlines()
    assert [line for line in lines if line.startswith("paceline_replica_draft_info")] == [
        'paceline_replica_draft_info{draft="/drafts/mine",replica="engine-0"} 1.0'
    ]


def test_retries_and_continuations_are_counted_from_zero() -> None:
    metrics = GatewayMetrics()
    assert 'paceline_retries_total{kind="unreachable"} 0.0' in rendered(metrics)
    metrics.retried(Outcome.UNREACHABLE)
    metrics.continuation_ended(Continuation.RESUMED)
    text = rendered(metrics)
    assert 'paceline_retries_total{kind="unreachable"} 1.0' in text
    assert 'paceline_continuations_total{result="resumed"} 1.0' in text
    assert 'paceline_continuations_total{result="not_continuable"} 0.0' in text


def test_queue_and_refusals_are_counted_from_zero() -> None:
    metrics = GatewayMetrics()
    small, large = metrics.of_model("small"), metrics.of_model("large")
    assert 'paceline_admission_queue_length{model="small"} 0.0' in rendered(metrics)
    small.queue_changed(1)
    small.queue_changed(1)
    small.queue_changed(-1)
    large.queue_changed(3)
    large.admission_refused(RefusalReason.DEADLINE)
    text = rendered(metrics)
    assert 'paceline_admission_queue_length{model="small"} 1.0' in text
    assert 'paceline_admission_queue_length{model="large"} 3.0' in text
    metrics.model_left("large")
    assert 'paceline_admission_queue_length{model="large"}' not in rendered(metrics)
    assert 'paceline_admission_refused_total{reason="deadline"} 1.0' in text
    assert 'paceline_admission_refused_total{reason="queue_full"} 0.0' in text


def test_a_continued_stream_has_one_time_to_first_token() -> None:
    """Each of its attempts reports its first bytes."""
    metrics = GatewayMetrics()
    times = RequestTimes(metrics)
    times.first_bytes()
    times.first_bytes()
    times.stream_completed(10)
    lines = rendered(metrics).splitlines()
    assert "paceline_time_to_first_token_seconds_count 1.0" in lines
    assert "paceline_time_per_output_token_seconds_count 1.0" in lines


def test_tokens_are_counted_where_they_are_known() -> None:
    metrics = GatewayMetrics()
    assert "paceline_output_tokens_total 0.0" in rendered(metrics)
    for usage in (Usage(10, 5, cached_tokens=8), None, Usage(3, 2)):
        metrics.tokens_used(usage)
    text = rendered(metrics)
    assert "paceline_prompt_tokens_total 13.0" in text
    assert "paceline_cached_prompt_tokens_total 8.0" in text
    assert "paceline_output_tokens_total 7.0" in text

"""Metrics of failure and overload."""

from paceline.gateway.admission.queue_forecast import RefusalReason
from paceline.gateway.metrics.metrics import Continuation, GatewayMetrics
from paceline.gateway.outcomes import Outcome
from paceline.gateway.routing.breaker import BreakerState


def rendered(metrics: GatewayMetrics) -> str:
    return metrics.render([], {}, {}, {}).decode()


def test_breaker_states_are_those_told_last() -> None:
    metrics = GatewayMetrics()
    metrics.breakers_are({"r0": BreakerState.OPEN, "r1": BreakerState.HALF_OPEN})
    text = rendered(metrics)
    assert 'paceline_breaker_state{replica="r0"} 2.0' in text
    assert 'paceline_breaker_state{replica="r1"} 1.0' in text
    metrics.breakers_are({"r1": BreakerState.CLOSED})
    text = rendered(metrics)
    assert 'replica="r0"' not in text
    assert 'paceline_breaker_state{replica="r1"} 0.0' in text


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
    assert "paceline_admission_queue_length 0.0" in rendered(metrics)
    metrics.queue_changed(1)
    metrics.queue_changed(1)
    metrics.queue_changed(-1)
    metrics.admission_refused(RefusalReason.DEADLINE)
    text = rendered(metrics)
    assert "paceline_admission_queue_length 1.0" in text
    assert 'paceline_admission_refused_total{reason="deadline"} 1.0' in text
    assert 'paceline_admission_refused_total{reason="queue_full"} 0.0' in text

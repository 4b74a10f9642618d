"""The dashboard of serving: outcomes, latency, queue, breakers, replicas, KV cache."""

from __future__ import annotations

from paceline.operations.monitoring.alerts import MAX_KV_USAGE_FRACTION, MAX_QUEUE_P99_S
from paceline.operations.monitoring.dashboards.model import (
    REPLICA,
    WINDOW,
    Dashboard,
    Lines,
    Query,
    Row,
    States,
    by_replica,
)
from paceline.operations.monitoring.queries import MetricQueries
from paceline.runtime.gateway.metrics.metrics import BREAKER_VALUES
from paceline.runtime.gateway.metrics.replica_definitions import STATE_VALUES
from paceline.runtime.gateway.routing.breaker import BreakerState

_CHOSEN = {"replica": REPLICA}
_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_COLORS_OF_STATES = {"down": "red", "starting": "blue", "ready": "green", "draining": "orange"}
_COLORS_OF_BREAKERS = {
    BreakerState.CLOSED: "green",
    BreakerState.HALF_OPEN: "orange",
    BreakerState.OPEN: "red",
}


def serving(queries: MetricQueries) -> Dashboard:
    """Raises `UnknownMetric` if the gateway lacks a metric of a panel."""
    return Dashboard(
        uid="paceline-serving",
        title="Paceline: serving",
        description="Requests, latency, queue and replicas of the gateways.",
        rows=(
            Row("Requests", _requests(queries)),
            Row("Latency", _latency(queries)),
            Row("Queue", _queue(queries)),
            Row("Replicas", _replicas(queries)),
            Row("Engines", _engines(queries)),
        ),
    )


def percentiles(queries: MetricQueries, histogram: str) -> tuple[Query, ...]:
    """p50, p90 and p99 over all gateways."""
    return tuple(
        Query(queries.quantile(quantile, histogram, WINDOW), name)
        for name, quantile in _PERCENTILES.items()
    )


def _requests(queries: MetricQueries) -> tuple[Lines, ...]:
    outcomes = queries.rate("paceline_requests_total", WINDOW)
    retries = queries.rate("paceline_retries_total", WINDOW)
    continuations = queries.rate("paceline_continuations_total", WINDOW)
    prompt = queries.rate("paceline_prompt_tokens_total", WINDOW)
    cached = queries.rate("paceline_cached_prompt_tokens_total", WINDOW)
    output = queries.rate("paceline_output_tokens_total", WINDOW)
    return (
        Lines(
            "Requests by outcome",
            "Every request ends in exactly one outcome.",
            (Query(f"sum by (outcome) ({outcomes})", "{{outcome}}"),),
            "reqps",
        ),
        Lines(
            "Tokens per second",
            "Of requests and answers that have ended, as the engines counted them.",
            (
                Query(f"sum({prompt})", "prompt"),
                Query(f"sum({cached})", "prompt, from prefix caches"),
                Query(f"sum({output})", "output"),
            ),
        ),
        Lines(
            "Retries and continued streams",
            "Attempts repeated before the first byte, and streams whose replica failed.",
            (
                Query(f"sum by (kind) ({retries})", "retry after {{kind}}"),
                Query(f"sum by (result) ({continuations})", "stream {{result}}"),
            ),
            "reqps",
        ),
    )


def _latency(queries: MetricQueries) -> tuple[Lines, ...]:
    return (
        Lines(
            "Time to first token",
            "Streams: from the last byte of the request to the engine's first event.",
            percentiles(queries, "paceline_time_to_first_token_seconds"),
            "s",
        ),
        Lines(
            "Time per output token",
            "Streams: mean time of a request's tokens after the first.",
            percentiles(queries, "paceline_time_per_output_token_seconds"),
            "s",
        ),
    )


def _queue(queries: MetricQueries) -> tuple[Lines, ...]:
    refused = queries.rate("paceline_admission_refused_total", WINDOW)
    waiting = queries.gauge("paceline_admission_queue_length")
    return (
        Lines(
            "Time in the gateway's queue",
            "From the last byte of the request until it is sent to a replica.",
            percentiles(queries, "paceline_queue_seconds"),
            "s",
            limit=MAX_QUEUE_P99_S,
        ),
        Lines(
            "Requests that wait in the gateway",
            "The engines' own queues are under Engines.",
            (Query(f"sum by (model) ({waiting})", "{{model}}"),),
        ),
        Lines(
            "Refused because of overload",
            "By reason.",
            (Query(f"sum by (reason) ({refused})", "{{reason}}"),),
            "reqps",
        ),
    )


def _replicas(queries: MetricQueries) -> tuple[Lines | States, ...]:
    state = queries.gauge("paceline_replica_state", _CHOSEN)
    breaker = queries.gauge("paceline_breaker_state", _CHOSEN)
    in_flight = queries.gauge("paceline_requests_in_flight", _CHOSEN)
    restarts = queries.increase("paceline_replica_restarts_total", "1h", _CHOSEN)
    return (
        States(
            "State",
            "As the gateway sees it.",
            (by_replica("max", state),),
            {value: (name, _COLORS_OF_STATES[name]) for name, value in STATE_VALUES.items()},
        ),
        States(
            "Circuit breakers",
            "The worst state in any gateway. An open breaker takes no requests.",
            (by_replica("max", breaker),),
            {
                value: (name.value, _COLORS_OF_BREAKERS[name])
                for name, value in BREAKER_VALUES.items()
            },
        ),
        Lines(
            "Requests in flight",
            "Sent by these gateways.",
            (by_replica("sum", in_flight),),
        ),
        Lines(
            "Restarts in an hour",
            "Of local engines, planned restarts included.",
            (by_replica("max", restarts),),
        ),
    )


def _engines(queries: MetricQueries) -> tuple[Lines, ...]:
    kv_usage = queries.gauge("paceline_replica_load_kv_usage_fraction", _CHOSEN)
    hits = queries.gauge("paceline_replica_load_prefix_hit_fraction", _CHOSEN)
    running = queries.gauge("paceline_replica_load_requests_running", _CHOSEN)
    waiting = queries.gauge("paceline_replica_load_requests_waiting", _CHOSEN)
    preemptions = queries.rate("paceline_replica_load_preemptions_total", WINDOW, _CHOSEN)
    tokens = queries.rate("paceline_replica_load_generation_tokens_total", WINDOW, _CHOSEN)
    return (
        Lines(
            "KV cache in use",
            "Above the line further requests soon wait or preempt others.",
            (by_replica("max", kv_usage),),
            "percentunit",
            limit=MAX_KV_USAGE_FRACTION,
        ),
        Lines(
            "Running and waiting requests",
            "By the engines' own metrics.",
            (
                by_replica("max", running, "running"),
                by_replica("max", waiting, "waiting"),
            ),
        ),
        Lines(
            "Output tokens per second, preemptions per second",
            "By the engines' own metrics.",
            (
                by_replica("max", tokens, "tokens"),
                by_replica("max", preemptions, "preemptions"),
            ),
        ),
        Lines(
            "Prompt tokens found in the prefix cache",
            "Since the start of the engine.",
            (by_replica("max", hits),),
            "percentunit",
        ),
    )

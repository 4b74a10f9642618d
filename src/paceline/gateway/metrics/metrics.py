"""All metrics of the gateway: names, help texts, labels, and the methods that record them.

The one module that names metrics. Metrics of requests are recorded as requests pass. Metrics of a
replica (its state, its governor, its load) are read at each scrape: a new one is a row in
`REPLICA_METRICS`, or in `CATEGORY_METRICS` if it is about one category of requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from paceline.gateway.admission import RefusalReason as AdmissionReason
from paceline.gateway.capture.results import CaptureResult
from paceline.gateway.fleet import ReplicaLoad
from paceline.gateway.metrics.replica_metrics import (
    CategoryMetric,
    ReplicaCollector,
    ReplicaFacts,
    ReplicaMetric,
    from_governor,
    from_load,
)
from paceline.gateway.metrics.samples import FamilyOfSamples, Summed, samples_of
from paceline.gateway.outcomes import Continuation, Outcome
from paceline.gateway.replicas import Replica
from paceline.gateway.routing.breaker import BreakerState
from paceline.gateway.usage import Usage

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_TTFT_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_TPOT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_QUEUE_BUCKETS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)

_STATE_VALUES = {"down": 0, "starting": 1, "ready": 2, "draining": 3}

_BREAKER_VALUES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}

_RETRIED_OUTCOMES = (
    Outcome.ENGINE_REFUSED,
    Outcome.UNREACHABLE,
    Outcome.BROKEN,
    Outcome.TIMED_OUT,
    Outcome.ENGINE_ERROR,
)

REPLICA_METRICS = (
    ReplicaMetric(
        "paceline_replica_state",
        "0 down, 1 starting, 2 ready, 3 draining.",
        lambda facts: _STATE_VALUES[facts.replica.state],
    ),
    ReplicaMetric(
        "paceline_replica_restarts_total",
        "Restarts of the replica.",
        lambda facts: facts.replica.num_restarts,
    ),
    ReplicaMetric(
        "paceline_governor_draft_length",
        "Draft tokens per request in the governor's last plan.",
        from_governor("draft_length"),
    ),
    ReplicaMetric(
        "paceline_governor_draft_length_ceiling",
        "Longest draft that the governor may plan.",
        from_governor("ceiling"),
    ),
    ReplicaMetric(
        "paceline_governor_accepted_fraction",
        "Fraction of recent draft tokens that the target accepted.",
        from_governor("accepted_fraction"),
    ),
    ReplicaMetric(
        "paceline_governor_goodput_tokens_per_second",
        "Output tokens per second of the engine, measured over its last decode-only steps.",
        from_governor("goodput_tokens_per_s"),
    ),
    ReplicaMetric(
        "paceline_governor_expected_goodput_tokens_per_second",
        "Output tokens per second that the governor expects from the current draft length.",
        from_governor("expected_goodput_tokens_per_s"),
    ),
    ReplicaMetric(
        "paceline_governor_accepted_tokens_total",
        "Draft tokens that the target accepted.",
        from_governor("accepted_tokens_total"),
    ),
    ReplicaMetric(
        "paceline_governor_drafted_tokens_total",
        "Draft tokens that the target verified.",
        from_governor("drafted_tokens_total"),
    ),
    ReplicaMetric(
        "paceline_governor_steps_total",
        "Engine steps that the governor planned.",
        from_governor("steps_total"),
    ),
    ReplicaMetric(
        "paceline_governor_safe_plan_steps_total",
        "Engine steps planned with the engine's static setting.",
        from_governor("safe_plan_steps_total"),
    ),
    ReplicaMetric(
        "paceline_governor_policy_errors_total",
        "Exceptions raised by the policy; each one led to a plan with the static setting.",
        from_governor("policy_errors_total"),
    ),
    ReplicaMetric(
        "paceline_governor_draft_length_changes_total",
        "Changes of the draft length, probes not counted.",
        from_governor("draft_length_changes_total"),
    ),
    ReplicaMetric(
        "paceline_governor_seconds_total",
        "Time in engine steps.",
        from_governor("seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_off_seconds_total",
        "Time in engine steps without drafting.",
        from_governor("off_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_exploring_seconds_total",
        "Time in engine steps that probed another draft length.",
        from_governor("exploring_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_safe_plan_seconds_total",
        "Time in engine steps with the static setting.",
        from_governor("safe_plan_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_governor_hindsight_seconds_total",
        "Time spent on replay scoring, which judges drafts after the output is known.",
        from_governor("hindsight_seconds_total"),
    ),
    ReplicaMetric(
        "paceline_replica_load_requests_running",
        "Requests that the replica computes, by its own metrics.",
        from_load(lambda load: load.num_running),
    ),
    ReplicaMetric(
        "paceline_replica_load_requests_waiting",
        "Requests in the replica's own queue.",
        from_load(lambda load: load.num_waiting),
    ),
    ReplicaMetric(
        "paceline_replica_load_kv_usage_fraction",
        "Fraction of the replica's KV cache in use.",
        from_load(lambda load: load.kv_usage_fraction),
    ),
    ReplicaMetric(
        "paceline_replica_load_prefix_hit_fraction",
        "Fraction of prompt tokens found in the replica's prefix cache.",
        from_load(lambda load: load.prefix_hit_fraction),
    ),
    ReplicaMetric(
        "paceline_replica_load_preemptions_total",
        "Requests evicted from the replica's KV cache since its start.",
        from_load(lambda load: load.num_preemptions),
    ),
    ReplicaMetric(
        "paceline_replica_load_generation_tokens_total",
        "Output tokens of the replica since its start.",
        from_load(lambda load: load.generation_tokens_total),
    ),
)

CATEGORY_METRICS = (
    CategoryMetric(
        "paceline_draft_drift_events_total",
        "Lasting shifts of draft acceptance that were found.",
        "events_total",
    ),
    CategoryMetric(
        "paceline_draft_drift_lost_tokens_per_second",
        "Output tokens per second that the last shift costs; negative where it gains, 0 without.",
        "lost_tokens_per_s",
    ),
    CategoryMetric(
        "paceline_draft_drift_acceptance",
        "Acceptance of the first draft token, weighted by text, over about the last 50 requests.",
        "acceptance",
    ),
    CategoryMetric(
        "paceline_draft_drift_reference_acceptance",
        "The acceptance that shifts are measured against; no sample while it is learned.",
        "reference_acceptance",
    ),
    CategoryMetric(
        "paceline_draft_drift_evidence_fraction",
        "Evidence of a shift; one is found at 1. No sample while the reference is learned.",
        "evidence_fraction",
    ),
)


class GatewayMetrics:
    """The metrics of one gateway process, in their own registry."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "paceline_requests_total",
            "Requests to the inference routes, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self._ttft = Histogram(
            "paceline_time_to_first_token_seconds",
            "Streams: time from the last byte of the request to the engine's first event.",
            buckets=_TTFT_BUCKETS_S,
            registry=registry,
        )
        self._tpot = Histogram(
            "paceline_time_per_output_token_seconds",
            "Streams of one choice whose number of output tokens is known (vLLM, or "
            "stream_options.include_usage): time from the first event to the end, divided by "
            "output tokens - 1.",
            buckets=_TPOT_BUCKETS_S,
            registry=registry,
        )
        self._queue = Histogram(
            "paceline_queue_seconds",
            "Time from the last byte of the request until it is sent to a replica: checks and "
            "waiting in the gateway, without the engine's own queue.",
            buckets=_QUEUE_BUCKETS_S,
            registry=registry,
        )
        self._in_flight = Gauge(
            "paceline_requests_in_flight",
            "Requests in flight on the replica.",
            ["replica"],
            registry=registry,
        )
        self._breaker_state = Gauge(
            "paceline_breaker_state",
            "0 closed (takes requests), 1 half-open (takes one as a trial), 2 open (takes none).",
            ["replica"],
            registry=registry,
        )
        self._retries = Counter(
            "paceline_retries_total",
            "Attempts repeated before the first byte, by the outcome of the previous attempt.",
            ["kind"],
            registry=registry,
        )
        self._continuations = Counter(
            "paceline_continuations_total",
            "Streams that had begun when their replica failed, by result.",
            ["result"],
            registry=registry,
        )
        self._waiting = Gauge(
            "paceline_admission_queue_length",
            "Requests that wait in the gateway for a replica.",
            registry=registry,
        )
        self._buffered = Gauge(
            "paceline_buffered_bytes",
            "Memory reserved for the requests and answers that the gateway holds.",
            registry=registry,
        )
        self._not_admitted = Counter(
            "paceline_admission_refused_total",
            "Requests refused because of overload, by reason.",
            ["reason"],
            registry=registry,
        )
        self._prompt_tokens = Counter(
            "paceline_prompt_tokens_total",
            "Prompt tokens of requests, as the engines counted them.",
            registry=registry,
        )
        self._cached_tokens = Counter(
            "paceline_cached_prompt_tokens_total",
            "Prompt tokens that engines found in their prefix caches, where they report it.",
            registry=registry,
        )
        self._output_tokens = Counter(
            "paceline_output_tokens_total",
            "Tokens of answers, as the engines counted them; of streams that ended early, those "
            "that the client received, where their ids are recorded.",
            registry=registry,
        )
        self._captured = Counter(
            "paceline_captured_requests_total",
            "Requests drawn for the capture of prompts, by what became of them.",
            ["result"],
            registry=registry,
        )
        self._worker_restarts = Counter(
            "paceline_worker_restarts_total",
            "Restarts of worker processes that had ended by themselves.",
            registry=registry,
        )
        _start_at_zero(self._requests, Outcome)
        _start_at_zero(self._retries, _RETRIED_OUTCOMES)
        _start_at_zero(self._continuations, Continuation)
        _start_at_zero(self._not_admitted, AdmissionReason)
        _start_at_zero(self._captured, CaptureResult)

    def request_ended(self, outcome: Outcome) -> None:
        self._requests.labels(outcome.value).inc()

    def tokens_used(self, usage: Usage | None) -> None:
        """A request has ended; None where its tokens are not known."""
        if usage is None:
            return
        self._prompt_tokens.inc(usage.prompt_tokens)
        self._cached_tokens.inc(usage.cached_tokens or 0)
        self._output_tokens.inc(usage.output_tokens)

    def queued_for(self, seconds: float) -> None:
        """A request is sent to a replica so long after its last byte."""
        self._queue.observe(seconds)

    def first_token_after(self, seconds: float) -> None:
        """The first event of a stream came so long after the last byte of its request."""
        self._ttft.observe(seconds)

    def output_token_took(self, seconds: float) -> None:
        """A stream is complete; the mean time of its tokens after the first."""
        self._tpot.observe(seconds)

    def retried(self, after: Outcome) -> None:
        """An attempt is repeated; `after` is the outcome of the previous one."""
        self._retries.labels(after.value).inc()

    def continuation_ended(self, result: Continuation) -> None:
        self._continuations.labels(result.value).inc()

    def queue_changed(self, by: int) -> None:
        """The number of waiting requests has changed by this, which may be negative."""
        self._waiting.inc(by)

    def buffered_bytes_changed(self, by: int) -> None:
        """The memory reserved for requests and answers changed by this much."""
        self._buffered.inc(by)

    def admission_refused(self, reason: AdmissionReason) -> None:
        self._not_admitted.labels(reason.value).inc()

    def captured(self, result: CaptureResult) -> None:
        """A request was drawn for the capture. Any thread may call it."""
        self._captured.labels(result.value).inc()

    def worker_restarted(self) -> None:
        self._worker_restarts.inc()

    def set_breaker_states(self, states: Mapping[str, BreakerState]) -> None:
        """Replace the states of all replicas."""
        self._breaker_state.clear()
        for name, state in states.items():
            self._breaker_state.labels(name).set(_BREAKER_VALUES[state])

    def samples(self) -> tuple[FamilyOfSamples, ...]:
        """Everything counted in this process, for another process to render."""
        return samples_of(self.registry.collect())

    def render(
        self,
        replicas: Sequence[Replica],
        num_in_flight: Mapping[str, int],
        governors: Mapping[str, Mapping[str, object]],
        loads: Mapping[str, ReplicaLoad],
        of_workers: Sequence[FamilyOfSamples] = (),
    ) -> bytes:
        """All metrics as Prometheus text.

        `governors` and `loads` hold, by replica, what could be read. `of_workers` is what other
        processes have counted; `num_in_flight` and the breaker states cover all processes already.
        """
        self._in_flight.clear()
        for replica in replicas:
            self._in_flight.labels(replica.name).set(num_in_flight.get(replica.name, 0))
        facts = [
            ReplicaFacts(replica, governors.get(replica.name), loads.get(replica.name))
            for replica in replicas
        ]
        scrape = CollectorRegistry()
        scrape.register(Summed(self.registry, of_workers))
        scrape.register(ReplicaCollector((*REPLICA_METRICS, *CATEGORY_METRICS), facts))
        return generate_latest(scrape)


def _start_at_zero(counter: Counter, values: Iterable[StrEnum]) -> None:
    """Create the series of these label values, so that `rate()` sees their first increment."""
    for value in values:
        counter.labels(value.value)

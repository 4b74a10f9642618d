"""The metrics of requests: names, help texts, labels, and the methods that record them.

They are recorded as requests pass. Metrics of a replica are in `replica_definitions`; no third
module names metrics. `definitions` lists those of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from paceline.runtime.gateway.admission import RefusalReason as AdmissionReason
from paceline.runtime.gateway.capture.results import CaptureResult
from paceline.runtime.gateway.fleet import ReplicaLoad
from paceline.runtime.gateway.metrics.replica_definitions import ALL_REPLICA_METRICS
from paceline.runtime.gateway.metrics.replica_metrics import ReplicaCollector, ReplicaFacts
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples, Summed, samples_of
from paceline.runtime.gateway.outcomes import Continuation, Outcome
from paceline.runtime.gateway.own_limits import descriptor_limit, num_open_descriptors
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.usage import Usage

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_TTFT_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_TPOT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_QUEUE_BUCKETS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)

BREAKER_VALUES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}
"""The values of paceline_breaker_state."""

_RETRIED_OUTCOMES = (
    Outcome.ENGINE_REFUSED,
    Outcome.UNREACHABLE,
    Outcome.BROKEN,
    Outcome.TIMED_OUT,
    Outcome.ENGINE_ERROR,
    Outcome.MISDIRECTED,
)


class GatewayMetrics:
    """The metrics of one gateway process, in their own registry."""

    def __init__(self, process: str = "gateway") -> None:
        """`process` names the process in the metrics that are its own."""
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
            "Requests that wait in the gateway for a replica; from the first request to the model.",
            ["model"],
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
        self._add_open_files(process)
        _start_at_zero(self._requests, Outcome)
        _start_at_zero(self._retries, _RETRIED_OUTCOMES)
        _start_at_zero(self._continuations, Continuation)
        _start_at_zero(self._not_admitted, AdmissionReason)
        _start_at_zero(self._captured, CaptureResult)

    def _add_open_files(self, process: str) -> None:
        """They are read when the page is rendered."""
        self._open_files = Gauge(
            "paceline_open_files",
            "Files and connections that a process of the gateway has open.",
            ["process"],
            registry=self.registry,
        )
        self._open_files.labels(process).set_function(num_open_descriptors)
        self._open_files_limit = Gauge(
            "paceline_open_files_limit",
            "Most files and connections that a process of the gateway may have open at a time.",
            ["process"],
            registry=self.registry,
        )
        self._open_files_limit.labels(process).set_function(descriptor_limit)

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

    def of_model(self, model: str) -> QueueMetrics:
        """What the queue of a model reports to; its length is 0."""
        return QueueMetrics(self._waiting.labels(model), self.admission_refused)

    def model_left(self, model: str) -> None:
        """The queue of a model is dropped."""
        self._waiting.remove(model)

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
            self._breaker_state.labels(name).set(BREAKER_VALUES[state])

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
        scrape.register(ReplicaCollector(ALL_REPLICA_METRICS, facts))
        return generate_latest(scrape)


@dataclass(frozen=True, slots=True)
class QueueMetrics:
    """The metrics of one model's queue."""

    waiting: Gauge
    admission_refused: Callable[[AdmissionReason], None]

    def queue_changed(self, by: int) -> None:
        """The number of waiting requests has changed by this, which may be negative."""
        self.waiting.inc(by)


def _start_at_zero(counter: Counter, values: Iterable[StrEnum]) -> None:
    """Create the series of these label values, so that `rate()` sees their first increment."""
    for value in values:
        counter.labels(value.value)

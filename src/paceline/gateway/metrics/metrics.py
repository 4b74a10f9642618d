"""What does the gateway measure, and under which names?

The one module that names metrics. Counters and histograms are fed as requests pass; the state of
the replicas and of their governors is read when somebody scrapes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paceline.gateway.admission.queue_forecast import RefusalReason as AdmissionReason
from paceline.gateway.fleet import ReplicaLoad
from paceline.gateway.metrics.samples import FamilyOfSamples, Summed, samples_of
from paceline.gateway.outcomes import Outcome
from paceline.gateway.replicas import Replica
from paceline.gateway.routing.breaker import BreakerState

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_TTFT_BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_TPOT_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
_QUEUE_BUCKETS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)

_STATE_VALUES = {"down": 0, "starting": 1, "ready": 2, "draining": 3}

_BREAKER_VALUES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}

_GOVERNOR_GAUGES = (
    ("draft_length", "draft_length", "Draft tokens per request that the governor planned last."),
    ("ceiling", "draft_length_ceiling", "Longest draft that the governor may plan."),
    ("accepted_fraction", "accepted_fraction", "Recent share of draft tokens accepted."),
    (
        "goodput_tokens_per_s",
        "goodput_tokens_per_second",
        "Output tokens per second of the engine, over its last steps that only decoded.",
    ),
    (
        "expected_goodput_tokens_per_s",
        "expected_goodput_tokens_per_second",
        "The same as the governor expects it of the draft length in force.",
    ),
)
_GOVERNOR_COUNTERS = (
    ("accepted_tokens_total", "accepted_tokens", "Draft tokens that the target accepted."),
    ("drafted_tokens_total", "drafted_tokens", "Draft tokens that the target verified."),
    ("steps_total", "steps", "Engine steps that the governor planned."),
    ("safe_plan_steps_total", "safe_plan_steps", "Of these, planned with the static setting."),
    ("policy_errors_total", "policy_errors", "Exceptions of the policy, each answered safely."),
    ("draft_length_changes_total", "draft_length_changes", "Changes of it, probes left out."),
    ("seconds_total", "seconds", "Time in engine steps."),
    ("off_seconds_total", "off_seconds", "Of it, in steps that drafted nothing."),
    ("exploring_seconds_total", "exploring_seconds", "Of it, in steps that were probes."),
    ("safe_plan_seconds_total", "safe_plan_seconds", "Of it, with the static setting."),
    ("hindsight_seconds_total", "hindsight_seconds", "Of it, judging drafts in hindsight."),
)

_LOAD_GAUGES = (
    ("num_running", "requests_running", "Requests that the replica says it computes."),
    ("num_waiting", "requests_waiting", "Requests in the replica's own queue."),
    ("kv_usage_fraction", "kv_usage_fraction", "Share of its KV cache in use."),
    ("prefix_hit_fraction", "prefix_hit_fraction", "Share of prompt tokens in its prefix cache."),
)
_LOAD_COUNTERS = (
    ("num_preemptions", "preemptions", "Requests thrown out of its KV cache since its start."),
    ("generation_tokens_total", "generation_tokens", "Output tokens since its start."),
)

GovernorState = Mapping[str, object]


class Continuation(StrEnum):
    """What became of a stream that had begun when its replica failed."""

    RESUMED = "resumed"
    """Another replica sent the next tokens."""
    FAILED = "failed"
    """The other replica failed before it sent any."""
    NOT_CONTINUABLE = "not_continuable"
    """The request is of a kind that cannot be continued."""
    GAVE_UP = "gave_up"
    """No replica, time, attempt or budget was left."""


class GatewayMetrics:
    """The metrics of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "paceline_requests",
            "Requests to the answering routes, by how they ended.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in Outcome:
            self._requests.labels(outcome.value)
        self._ttft = Histogram(
            "paceline_time_to_first_token_seconds",
            "Streams: from the request's last byte to the first event from the engine.",
            buckets=_TTFT_BUCKETS_S,
            registry=self.registry,
        )
        self._tpot = Histogram(
            "paceline_time_per_output_token_seconds",
            "Streams of one choice that carry their usage (stream_options.include_usage): time "
            "from the first event to the end, divided by output tokens - 1. Others are not "
            "counted, since the gateway does not parse what it passes through.",
            buckets=_TPOT_BUCKETS_S,
            registry=self.registry,
        )
        self._queue = Histogram(
            "paceline_queue_seconds",
            "From the request's last byte to its sending to a replica: checks and waiting in the "
            "gateway. The engine's own queue is not in it.",
            buckets=_QUEUE_BUCKETS_S,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "paceline_requests_in_flight",
            "Requests that a replica is working on.",
            ["replica"],
            registry=self.registry,
        )
        self._init_failures()
        self._init_admission()
        self._worker_restarts = Counter(
            "paceline_worker_restarts",
            "Times a process of the data port ended by itself and another took its place.",
            registry=self.registry,
        )

    def _init_failures(self) -> None:
        self._breaker_state = Gauge(
            "paceline_breaker_state",
            "0 closed (takes requests), 1 half-open (one tries it), 2 open (takes none).",
            ["replica"],
            registry=self.registry,
        )
        self._retries = Counter(
            "paceline_retries",
            "Attempts made again before the first byte, by how the one before them ended.",
            ["kind"],
            registry=self.registry,
        )
        for outcome in (
            Outcome.UNREACHABLE,
            Outcome.BROKEN,
            Outcome.TIMED_OUT,
            Outcome.ENGINE_ERROR,
        ):
            self._retries.labels(outcome.value)
        self._continuations = Counter(
            "paceline_continuations",
            "Streams that had begun when their replica failed, by what became of them.",
            ["result"],
            registry=self.registry,
        )
        for result in Continuation:
            self._continuations.labels(result.value)

    def _init_admission(self) -> None:
        self._waiting = Gauge(
            "paceline_admission_queue_length",
            "Requests that wait in the gateway for a replica to take them.",
            registry=self.registry,
        )
        self._not_admitted = Counter(
            "paceline_admission_refused",
            "Requests that were told to come again later, by why.",
            ["reason"],
            registry=self.registry,
        )
        for reason in AdmissionReason:
            self._not_admitted.labels(reason.value)

    def queue_changed(self, by: int) -> None:
        """So many more wait; fewer, where negative."""
        self._waiting.inc(by)

    def admission_refused(self, reason: AdmissionReason) -> None:
        self._not_admitted.labels(reason.value).inc()

    def breakers_are(self, states: Mapping[str, BreakerState]) -> None:
        """Replaces what was known of all replicas."""
        self._breaker_state.clear()
        for name, state in states.items():
            self._breaker_state.labels(name).set(_BREAKER_VALUES[state])

    def retried(self, after: Outcome) -> None:
        """An attempt is made again; `after` is how the one before it ended."""
        self._retries.labels(after.value).inc()

    def continuation_ended(self, result: Continuation) -> None:
        self._continuations.labels(result.value).inc()

    def request_ended(self, outcome: Outcome) -> None:
        self._requests.labels(outcome.value).inc()

    def worker_restarted(self) -> None:
        self._worker_restarts.inc()

    def samples(self) -> tuple[FamilyOfSamples, ...]:
        """All that was counted here, for another process to show."""
        return samples_of(self.registry.collect())

    def render(
        self,
        replicas: Sequence[Replica],
        num_in_flight: Mapping[str, int],
        governors: Mapping[str, GovernorState],
        loads: Mapping[str, ReplicaLoad],
        of_workers: Sequence[FamilyOfSamples] = (),
    ) -> bytes:
        """Everything as Prometheus text; `governors` and `loads` hold what could be read.

        `of_workers` is what other processes counted; in flight and breakers are told for all.
        """
        self._in_flight.clear()
        for replica in replicas:
            self._in_flight.labels(replica.name).set(num_in_flight.get(replica.name, 0))
        scrape = CollectorRegistry()
        scrape.register(Summed(self.registry, of_workers))
        scrape.register(_Snapshot(replicas, governors, loads))
        return generate_latest(scrape)


class RequestTimes:
    """Observes the times of one request; begins when its body has been read."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics
        self._num_choices = 1
        self._read_at_s = time.monotonic()
        self._first_at_s: float | None = None

    def sent_upstream(self, num_choices: int) -> None:
        self._num_choices = num_choices
        self._metrics._queue.observe(time.monotonic() - self._read_at_s)

    def first_bytes(self) -> None:
        self._first_at_s = time.monotonic()
        self._metrics._ttft.observe(self._first_at_s - self._read_at_s)

    def stream_completed(self, num_output_tokens: int | None) -> None:
        if self._first_at_s is None or self._num_choices != 1:
            return
        if num_output_tokens is not None and num_output_tokens > 1:
            duration_s = time.monotonic() - self._first_at_s
            self._metrics._tpot.observe(duration_s / (num_output_tokens - 1))


class _Snapshot(Collector):
    """What was read of the replicas for this one scrape."""

    def __init__(
        self,
        replicas: Sequence[Replica],
        governors: Mapping[str, GovernorState],
        loads: Mapping[str, ReplicaLoad],
    ) -> None:
        self._replicas = replicas
        self._governors = governors
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "paceline_replica_state", "0 down, 1 starting, 2 ready, 3 draining.", labels=["replica"]
        )
        restarts = CounterMetricFamily(
            "paceline_replica_restarts", "Times a replica was started again.", labels=["replica"]
        )
        for replica in self._replicas:
            state.add_metric([replica.name], _STATE_VALUES[replica.state])
            if replica.num_restarts is not None:
                restarts.add_metric([replica.name], replica.num_restarts)
        yield state
        yield restarts
        for key, name, text in _GOVERNOR_GAUGES:
            gauge = GaugeMetricFamily(f"paceline_governor_{name}", text, labels=["replica"])
            for replica_name, value in self._values(key):
                gauge.add_metric([replica_name], value)
            yield gauge
        for key, name, text in _GOVERNOR_COUNTERS:
            counter = CounterMetricFamily(f"paceline_governor_{name}", text, labels=["replica"])
            for replica_name, value in self._values(key):
                counter.add_metric([replica_name], value)
            yield counter
        yield from self._collect_loads()

    def _collect_loads(self) -> Iterator[Metric]:
        """What the replicas say of themselves; a figure that one does not give has no sample."""
        for key, name, text in _LOAD_GAUGES:
            yield self._filled(
                GaugeMetricFamily(f"paceline_replica_load_{name}", text, labels=["replica"]), key
            )
        for key, name, text in _LOAD_COUNTERS:
            yield self._filled(
                CounterMetricFamily(f"paceline_replica_load_{name}", text, labels=["replica"]), key
            )

    def _filled(
        self, family: GaugeMetricFamily | CounterMetricFamily, key: str
    ) -> GaugeMetricFamily | CounterMetricFamily:
        for replica_name, load in self._loads.items():
            value = getattr(load, key)
            if value is not None:
                family.add_metric([replica_name], value)
        return family

    def _values(self, key: str) -> Iterable[tuple[str, float]]:
        """Absent figures (null, or not a number) have no sample."""
        for replica_name, state in self._governors.items():
            value = state.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield replica_name, value

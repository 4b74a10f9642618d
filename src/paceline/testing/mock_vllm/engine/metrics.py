"""Render the engine's load, cache and token counters as the metrics of vLLM 0.32.

Names, help texts and labels are vLLM's. Only a part of vLLM's metric families is included. While
the engine hangs they stand still, as in vLLM, whose front end shows what the engine core reported
last.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from paceline.testing.mock_vllm.engine.engine import Engine
from paceline.testing.mock_vllm.engine.latencies import LatencyHistogram

_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """The engine's state at one moment."""

    num_running: int
    num_waiting: int
    kv_used_fraction: float
    queried_tokens_total: int
    hit_tokens_total: int
    preemptions_total: int
    prompt_tokens_total: int
    generation_tokens_total: int
    finished_total: Mapping[str, int]
    drafts_total: int
    draft_tokens_total: int
    accepted_per_position_total: tuple[int, ...]

    @classmethod
    def of(cls, engine: Engine) -> EngineFigures:
        return cls(
            engine.num_running,
            engine.num_waiting,
            engine.cache.used_fraction,
            engine.cache.queried_tokens_total,
            engine.cache.hit_tokens_total,
            engine.preemptions_total,
            engine.prompt_tokens_total,
            engine.generation_tokens_total,
            dict(engine.finished_total),
            engine.drafts_total,
            engine.draft_tokens_total,
            tuple(engine.accepted_per_position_total),
        )


class EngineMetrics:
    """Reads the engine's state at each scrape."""

    def __init__(self, engine: Engine, model: str, *, speculates: bool = False) -> None:
        """`speculates`: include the counters of drafts, as vLLM does where it drafts; without
        scripted speculation they stay 0."""
        self._registry = CollectorRegistry()
        self._registry.register(_Reader(engine, model, speculates))

    def render(self) -> bytes:
        return generate_latest(self._registry)


class _Reader(Collector):
    def __init__(self, engine: Engine, model: str, speculates: bool) -> None:
        self._engine = engine
        self._speculates = speculates
        self._labels = (model, "0")
        self._created_s = time.time()
        self._shown = EngineFigures.of(engine)

    def collect(self) -> Iterator[Metric]:
        if not self._engine.is_paused:
            self._shown = EngineFigures.of(self._engine)
        shown = self._shown
        if self._speculates:
            yield from self._speculation(shown)
        yield self._gauge(
            "num_requests_running",
            "Number of requests in model execution batches.",
            shown.num_running,
        )
        yield self._gauge(
            "num_requests_waiting",
            "Number of requests waiting to be processed.",
            shown.num_waiting,
        )
        yield self._gauge(
            "kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            shown.kv_used_fraction,
        )
        yield self._counter(
            "prefix_cache_queries",
            "Prefix cache queries, in terms of number of queried tokens.",
            shown.queried_tokens_total,
        )
        yield self._counter(
            "prefix_cache_hits",
            "Prefix cache hits, in terms of number of cached tokens.",
            shown.hit_tokens_total,
        )
        yield self._counter(
            "num_preemptions",
            "Cumulative number of preemption from the engine.",
            shown.preemptions_total,
        )
        yield self._counter(
            "prompt_tokens", "Number of prefill tokens processed.", shown.prompt_tokens_total
        )
        yield self._counter(
            "generation_tokens",
            "Number of generation tokens processed.",
            shown.generation_tokens_total,
        )
        finished = CounterMetricFamily(
            "vllm:request_success",
            "Count of successfully processed requests.",
            labels=("model_name", "engine", "finished_reason"),
        )
        for reason in _FINISH_REASONS:
            finished.add_metric(
                (*self._labels, reason), shown.finished_total.get(reason, 0), self._created_s
            )
        yield finished
        latencies = self._engine.latencies
        yield self._histogram(
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            latencies.first_token,
        )
        yield self._histogram(
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            latencies.inter_token,
        )
        yield self._histogram(
            "request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            latencies.queue,
        )

    def _speculation(self, shown: EngineFigures) -> Iterator[Metric]:
        per_position = shown.accepted_per_position_total
        for name, text, value in (
            ("drafts", "Number of spec decoding drafts.", shown.drafts_total),
            ("draft_tokens", "Number of draft tokens.", shown.draft_tokens_total),
            ("accepted_tokens", "Number of accepted tokens.", sum(per_position)),
        ):
            yield self._counter(f"spec_decode_num_{name}", text, value)
        positions = CounterMetricFamily(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            labels=("model_name", "engine", "position"),
        )
        for position, count in enumerate(per_position):
            positions.add_metric((*self._labels, str(position)), count, self._created_s)
        yield positions

    def _histogram(self, name: str, text: str, histogram: LatencyHistogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=("model_name", "engine"))
        family.add_metric(self._labels, histogram.buckets(), histogram.sum_s)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=("model_name", "engine"))
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=("model_name", "engine"))
        family.add_metric(self._labels, value, self._created_s)
        return family

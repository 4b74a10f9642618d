"""Read the counters and gauges of a metrics page, of vLLM's families or of Paceline's. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

from paceline.operations.validate.values import Violation

Samples = Mapping[str, list[tuple[Mapping[str, str], float]]]


class MetricFamily(StrEnum):
    """What a metrics page says about a server, whatever its dialect."""

    FINISHED = "requests that ended with a complete answer"
    PROMPT_TOKENS = "prompt tokens"
    OUTPUT_TOKENS = "output tokens"
    RUNNING = "requests in flight"
    KV_USED = "fraction of the KV cache in use"
    CACHED_TOKENS = "prompt tokens found in the prefix cache"
    CACHED_FRACTION = "fraction of prompt tokens found in the prefix cache"
    DRAFTED = "draft tokens"
    ACCEPTED = "accepted draft tokens"


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    label: str | None = None
    values: tuple[str, ...] = ()
    """Only samples whose label has one of these values."""
    combine: Callable[[Iterable[float]], float] = sum


_VLLM = {
    MetricFamily.FINISHED: _Source(
        "vllm:request_success_total", "finished_reason", ("stop", "length")
    ),
    MetricFamily.PROMPT_TOKENS: _Source("vllm:prompt_tokens_total"),
    MetricFamily.OUTPUT_TOKENS: _Source("vllm:generation_tokens_total"),
    MetricFamily.RUNNING: _Source("vllm:num_requests_running"),
    MetricFamily.KV_USED: _Source("vllm:kv_cache_usage_perc", combine=max),
    MetricFamily.CACHED_TOKENS: _Source("vllm:prefix_cache_hits_total"),
    MetricFamily.DRAFTED: _Source("vllm:spec_decode_num_draft_tokens_total"),
    MetricFamily.ACCEPTED: _Source("vllm:spec_decode_num_accepted_tokens_total"),
}
_PACELINE = {
    MetricFamily.FINISHED: _Source("paceline_requests_total", "outcome", ("completed",)),
    MetricFamily.PROMPT_TOKENS: _Source("paceline_prompt_tokens_total"),
    MetricFamily.OUTPUT_TOKENS: _Source("paceline_output_tokens_total"),
    MetricFamily.RUNNING: _Source("paceline_replica_load_requests_running"),
    MetricFamily.KV_USED: _Source("paceline_replica_load_kv_usage_fraction", combine=max),
    MetricFamily.CACHED_TOKENS: _Source("paceline_cached_prompt_tokens_total"),
    MetricFamily.CACHED_FRACTION: _Source("paceline_replica_load_prefix_hit_fraction", combine=max),
    MetricFamily.DRAFTED: _Source("paceline_governor_drafted_tokens_total"),
    MetricFamily.ACCEPTED: _Source("paceline_governor_accepted_tokens_total"),
}
REQUIRED = (
    MetricFamily.FINISHED,
    MetricFamily.PROMPT_TOKENS,
    MetricFamily.OUTPUT_TOKENS,
    MetricFamily.RUNNING,
    MetricFamily.KV_USED,
)
"""Families that every server of a known dialect shows."""


@dataclass(frozen=True, slots=True)
class Counters:
    """One reading of a metrics page."""

    dialect: str
    """vllm or paceline."""
    values: Mapping[MetricFamily, float]
    """Summed over replicas; families that the page does not show are absent."""

    def __getitem__(self, family: MetricFamily) -> float:
        if family not in self.values:
            raise Violation(f"the metrics page does not show {name_of(family, self.dialect)}")
        return self.values[family]


def name_of(family: MetricFamily, dialect: str) -> str:
    """The name of a family's metric.

    >>> name_of(MetricFamily.RUNNING, "vllm")
    'vllm:num_requests_running'
    """
    return (_PACELINE if dialect == "paceline" else _VLLM)[family].name


def read_counters(page: str) -> Counters | None:
    """The counters of a page; None if it is of neither dialect.

    `Violation` if it is no page, or shows NaN or an infinite value for one of these families.
    """
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    except ValueError as error:
        raise Violation(f"the metrics page is no Prometheus text: {error}") from error
    for dialect, prefix, sources in (
        ("vllm", "vllm:", _VLLM),  # first: with Paceline's plugin, vLLM shows paceline_engine_* too
        ("paceline", "paceline_", _PACELINE),
    ):
        if any(name.startswith(prefix) for name in samples):
            return Counters(dialect, _values(samples, sources))
    return None


def _values(samples: Samples, sources: Mapping[MetricFamily, _Source]) -> dict[MetricFamily, float]:
    found = {}
    for family, source in sources.items():
        chosen = [
            value
            for labels, value in samples.get(source.name, ())
            if source.label is None or labels.get(source.label) in source.values
        ]
        for value in chosen:
            if not math.isfinite(value):
                raise Violation(f"the metrics page shows {value} for {source.name}")
        if chosen:
            found[family] = source.combine(chosen)
    return found

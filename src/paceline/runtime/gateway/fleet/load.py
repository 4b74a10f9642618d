"""Read the load of a replica from its metrics page.

A pure decision: Prometheus text in, a `ReplicaLoad` out. Whatever the page holds, every figure is
finite and at most `MAX_VALUE`, or None.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise

from paceline.runtime.gateway.fleet.dialects import CounterNames, CounterRatio, LoadNames, Series
from paceline.runtime.gateway.fleet.metrics_page import MAX_VALUE, MetricsPage, labels_of
from paceline.runtime.gateway.fleet.token_counters import TokenCounters


@dataclass(frozen=True, slots=True)
class InterTokenTimes:
    """Histogram of the seconds between two chunks of tokens of a request."""

    buckets: tuple[tuple[str, float], ...]
    """(upper bound as the server writes it, observations up to it), the last one +Inf."""
    total_s: float


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """Load that a replica reported at one moment; None for a figure that it does not report."""

    num_running: int | None = None
    """Requests being computed."""
    num_waiting: int | None = None
    """Requests in the replica's own queue."""
    kv_usage_fraction: float | None = None
    """Fraction of the KV cache in use."""
    prefix_hit_fraction: float | None = None
    """Fraction of prompt tokens found in the prefix cache. The server chooses the time window;
    vLLM's begins at its start."""
    num_preemptions: int | None = None
    """Requests evicted from a full KV cache since the start of the replica."""
    generation_tokens_total: int | None = None
    """Output tokens since the start of the replica."""
    activity: tuple[float, ...] | None = None
    """Figures of which at least one changes while the engine works; None when it reports none.

    The numbers of requests are not among them: they also change where requests only arrive.
    """
    num_activity_changes: int | None = None
    """Readings whose `activity` differed from the one before, since the gateway's first reading of
    this replica; None without `activity`. `LoadReading.followed_by` counts them."""
    inter_token: InterTokenTimes | None = None
    """Since the start of the replica, of all its engines and models."""


_MAX_BUCKETS = 64
"""Of the histogram, all of which the gateway repeats on its own metrics page for each replica. vLLM
has some 20."""


def parse_load(page: MetricsPage, names: LoadNames) -> ReplicaLoad:
    """The load on a metrics page. Does not raise: a value that is not a number is ignored.

    For a server with several engines or models, counts are summed and the highest fraction is
    used: the fullest cache is the one that evicts requests.
    """
    return ReplicaLoad(
        num_running=_count(page, names.num_running),
        num_waiting=_count(page, names.num_waiting),
        kv_usage_fraction=_fraction(page, names.kv_usage_fraction),
        prefix_hit_fraction=_fraction(page, names.prefix_hit_fraction),
        num_preemptions=_count(page, names.num_preemptions),
        generation_tokens_total=_count(page, names.generation_tokens_total),
        activity=_activity(page, names.activity),
        inter_token=_inter_token(page, names.inter_token),
    )


def parse_counters(page: MetricsPage, names: CounterNames) -> TokenCounters:
    """The counters on a metrics page, summed over engines and models. Does not raise."""
    return TokenCounters(
        generation_tokens=_sum(page, names.generation_tokens),
        inter_token_s=_sum(page, names.inter_token_s),
        drafted_tokens=_sum(page, names.drafted_tokens),
        accepted_tokens=_sum(page, names.accepted_tokens),
    )


def _activity(page: MetricsPage, names: tuple[Series, ...]) -> tuple[float, ...] | None:
    """The values of all of them; None without the first, which all others only complement."""
    values = [_values(page, series) for series in names]
    return tuple(v for found in values for v in found) if values and values[0] else None


def _inter_token(page: MetricsPage, name: str | None) -> InterTokenTimes | None:
    """None without it, or if it is no whole histogram."""
    if name is None:
        return None
    buckets: dict[str, float] = {}
    for labels, value in page.samples(f"{name}_bucket").items():
        bound = labels_of(labels).get("le", "")
        buckets[bound] = buckets.get(bound, 0.0) + value
    total_s = _sum(page, (Series(f"{name}_sum"),))
    if total_s is None or not 0 < len(buckets) <= _MAX_BUCKETS:
        return None
    bounds, counts = [_bound(text) for text in buckets], list(buckets.values())
    is_whole = bounds[-1] == math.inf and bounds[0] > 0 and counts[-1] <= MAX_VALUE
    if not (is_whole and _rises(bounds) and counts == sorted(counts)):
        return None
    return InterTokenTimes(tuple(buckets.items()), total_s)


_BOUND = re.compile(r"[0-9.]{1,20}(e[+-]?[0-9]{1,3})?")


def _bound(text: str) -> float:
    """Infinite for `+Inf` alone, as Prometheus writes it; NaN for what is no upper bound."""
    if text == "+Inf":
        return math.inf
    try:
        bound = float(text) if _BOUND.fullmatch(text) else math.nan
    except ValueError:  # 1.2.3
        return math.nan
    return bound if bound < math.inf else math.nan


def _rises(bounds: list[float]) -> bool:
    return all(lower < upper for lower, upper in pairwise(bounds))


def _sum(page: MetricsPage, alternatives: tuple[Series, ...]) -> float | None:
    for series in alternatives:
        values = _values(page, series)
        if values:
            total = sum(values)
            return total if total <= MAX_VALUE else None
    return None


def _count(page: MetricsPage, alternatives: tuple[Series, ...]) -> int | None:
    total = _sum(page, alternatives)
    return None if total is None else round(total)


def _fraction(page: MetricsPage, alternatives: tuple[Series | CounterRatio, ...]) -> float | None:
    for source in alternatives:
        if isinstance(source, CounterRatio):
            denominator = sum(_values(page, source.denominator))
            if denominator > 0:
                return min(sum(_values(page, source.numerator)) / denominator, 1.0)
        else:
            values = _values(page, source)
            if values:
                return min(max(values), 1.0)
    return None


def _values(page: MetricsPage, series: Series) -> list[float]:
    """The values of all label sets of a series."""
    found, label = page.samples(series.name), series.label
    if label is None:
        return list(found.values())
    name, wanted = label
    return [value for labels, value in found.items() if labels_of(labels).get(name) == wanted]

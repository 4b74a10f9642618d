"""Read the load of a replica from its metrics page.

A pure decision: Prometheus text in, a `ReplicaLoad` out. It searches for the few names that the
dialect gives and skips the rest: vLLM's page has some hundred kilobytes, and parsing all of it
would delay the streams on the same event loop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from paceline.gateway.fleet.dialects import CounterNames, CounterRatio, LoadNames, Series
from paceline.gateway.fleet.token_counters import TokenCounters


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


def parse_load(page: str, names: LoadNames) -> ReplicaLoad:
    """The load on a metrics page. Does not raise: a value that is not a number is ignored.

    For a server with several engines or models, counts are summed and the highest fraction is
    used: the fullest cache is the one that evicts requests.
    """
    text = "\n" + page
    return ReplicaLoad(
        num_running=_count(text, names.num_running),
        num_waiting=_count(text, names.num_waiting),
        kv_usage_fraction=_fraction(text, names.kv_usage_fraction),
        prefix_hit_fraction=_fraction(text, names.prefix_hit_fraction),
        num_preemptions=_count(text, names.num_preemptions),
        generation_tokens_total=_count(text, names.generation_tokens_total),
        activity=_activity(text, names.activity),
        inter_token=_inter_token(text, names.inter_token),
    )


def parse_counters(page: str, names: CounterNames) -> TokenCounters:
    """The counters on a metrics page, summed over engines and models. Does not raise."""
    text = "\n" + page
    return TokenCounters(
        generation_tokens=_sum(text, names.generation_tokens),
        inter_token_s=_sum(text, names.inter_token_s),
        drafted_tokens=_sum(text, names.drafted_tokens),
        accepted_tokens=_sum(text, names.accepted_tokens),
    )


def _activity(text: str, names: tuple[Series, ...]) -> tuple[float, ...] | None:
    """The values of all of them; None without the first, which all others only complement."""
    values = [list(_values(text, series)) for series in names]
    return tuple(v for found in values for v in found) if values and values[0] else None


def _inter_token(text: str, name: str | None) -> InterTokenTimes | None:
    """None without it, or if it is no whole histogram."""
    if name is None:
        return None
    buckets: dict[str, float] = {}
    for labels, value in _samples(text, f"{name}_bucket"):
        bound = _BOUND.search(labels)
        if bound is None:
            return None
        buckets[bound[1]] = buckets.get(bound[1], 0.0) + value
    total_s = _sum(text, (Series(f"{name}_sum"),))
    bounds, counts = [_bound(text) for text in buckets], list(buckets.values())
    is_whole = bool(bounds) and bounds[-1] == math.inf and bounds[0] > 0
    if total_s is None or not is_whole or not (_rises(bounds) and counts == sorted(counts)):
        return None
    return InterTokenTimes(tuple(buckets.items()), total_s)


def _bound(text: str) -> float:
    """NaN for what is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _rises(bounds: list[float]) -> bool:
    return all(lower < upper for lower, upper in pairwise(bounds))


def _sum(text: str, alternatives: tuple[Series, ...]) -> float | None:
    for series in alternatives:
        values = list(_values(text, series))
        if values:
            return sum(values)
    return None


def _count(text: str, alternatives: tuple[Series, ...]) -> int | None:
    total = _sum(text, alternatives)
    return None if total is None else round(total)


def _fraction(text: str, alternatives: tuple[Series | CounterRatio, ...]) -> float | None:
    for source in alternatives:
        if isinstance(source, CounterRatio):
            denominator = sum(_values(text, source.denominator))
            if denominator > 0:
                return min(sum(_values(text, source.numerator)) / denominator, 1.0)
        else:
            values = list(_values(text, source))
            if values:
                return min(max(values), 1.0)
    return None


_LABELS_AND_VALUE = re.compile(r"(\{.*\})?[ \t]+(\S+)")
"""What follows a metric name. Label values may contain braces; the last one closes the labels."""


_BOUND = re.compile(r'\ble="([^"]+)"')


def _values(text: str, series: Series) -> Iterator[float]:
    """The values of all label sets of a series, without negative ones, NaN and infinity."""
    for labels, value in _samples(text, series.name):
        if _has_label(labels, series.label):
            yield value


def _samples(text: str, name: str) -> Iterator[tuple[str, float]]:
    """Labels and value of each sample, without negative values, NaN and infinity."""
    start = "\n" + name
    at = text.find(start)
    while at >= 0:
        at += len(start)
        found = _LABELS_AND_VALUE.match(text, at)
        value = None if found is None else _number(found[2])
        if found is not None and value is not None:
            yield found[1] or "", value
        at = text.find(start, at)


def _has_label(labels: str, label: tuple[str, str] | None) -> bool:
    return label is None or f'{label[0]}="{label[1]}"' in labels


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None

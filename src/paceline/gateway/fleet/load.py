"""How loaded is a replica, by its own page of metrics?

A decision on text: Prometheus' format in, a `ReplicaLoad` out. It looks for the few names of the
dialect and skips the rest: a page of vLLM's has some hundred kilobytes, and parsing it whole would
hold up the streams on the same event loop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.gateway.fleet.dialects import LoadNames, Series, Share


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What a replica said of itself at one moment; None where it does not say."""

    num_running: int | None = None
    """Requests that it computes."""
    num_waiting: int | None = None
    """Requests in its own queue."""
    kv_usage_fraction: float | None = None
    """Share of the KV cache in use."""
    prefix_hit_fraction: float | None = None
    """Share of prompt tokens found in its prefix cache; how far back it looks is the server's
    choice, vLLM's goes back to its start."""
    num_preemptions: int | None = None
    """Requests thrown out of a full KV cache, since its start."""
    generation_tokens_total: int | None = None
    """Output tokens, since its start."""


def read_load(page: str, names: LoadNames) -> ReplicaLoad:
    """The load on a page of metrics. Does not raise: what is no number counts as not said.

    Of a server with several engines, or several models, counts are added and of shares the
    highest is taken: the fullest cache is the one that throws requests out.
    """
    text = "\n" + page
    return ReplicaLoad(
        num_running=_count(text, names.num_running),
        num_waiting=_count(text, names.num_waiting),
        kv_usage_fraction=_fraction(text, names.kv_usage_fraction),
        prefix_hit_fraction=_fraction(text, names.prefix_hit_fraction),
        num_preemptions=_count(text, names.num_preemptions),
        generation_tokens_total=_count(text, names.generation_tokens_total),
    )


def _count(text: str, alternatives: tuple[Series, ...]) -> int | None:
    for series in alternatives:
        values = list(_values(text, series))
        if values:
            return round(sum(values))
    return None


def _fraction(text: str, alternatives: tuple[Series | Share, ...]) -> float | None:
    for source in alternatives:
        if isinstance(source, Share):
            whole = sum(_values(text, source.whole))
            if whole > 0:
                return min(sum(_values(text, source.part)) / whole, 1.0)
        else:
            values = list(_values(text, source))
            if values:
                return min(max(values), 1.0)
    return None


_REST = re.compile(r"(\{.*\})?[ \t]+(\S+)")
"""Labels and value behind a name. Label values may hold braces; the last one ends them."""


def _values(text: str, series: Series) -> Iterator[float]:
    """The values of a series, of all its label sets; negative ones and NaN are left out."""
    start = "\n" + series.name
    at = text.find(start)
    while at >= 0:
        at += len(start)
        found = _REST.match(text, at)
        if found is not None and _is_asked_for(found[1] or "", series.label):
            value = _number(found[2])
            if value is not None:
                yield value
        at = text.find(start, at)


def _is_asked_for(labels: str, label: tuple[str, str] | None) -> bool:
    return label is None or f'{label[0]}="{label[1]}"' in labels


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None

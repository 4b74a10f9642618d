"""`MetricsPage`: a parsed page of Prometheus text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from paceline.foundation.servers.metrics_histogram import Histogram, sum_histograms

_PREFIXES = {"vllm": "vllm:", "paceline": "paceline_"}
"""In this order: with Paceline's plugin, a vLLM server shows paceline_engine_* too."""
_ENDINGS = {
    "counter": ("", "_total"),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("", "_sum", "_count"),
}
"""Of the names of a family's samples; the parser takes _total off the name of a counter's family.
Other families have one name."""
_PLUGIN_PREFIX = "paceline_engine_"


class PageUnreadable(Exception):
    """The text is no metrics page. The message says what it looks like."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """All samples with finite values, by name."""

    samples: Mapping[str, Sequence[Sample]]
    declared: frozenset[str] = frozenset()
    """Names that samples of its families can have, also of families without one yet."""

    @property
    def kind(self) -> str | None:
        """paceline or vllm; None for a page of another server."""
        for kind, prefix in _PREFIXES.items():
            if any(name.startswith(prefix) for name in self.samples):
                return kind
        return None

    @property
    def has_plugin(self) -> bool:
        """Whether it is of a vLLM server in which Paceline is installed."""
        return any(name.startswith(_PLUGIN_PREFIX) for name in self.samples)

    def has_metric(self, name: str) -> bool:
        """Whether the server has it, perhaps without a sample yet."""
        return name in self.declared or name in self.samples

    def select(self, name: str, **labels: str) -> list[Sample]:
        """The samples of this name that have these labels."""
        return [
            sample
            for sample in self.samples.get(name, ())
            if all(sample.labels.get(label) == value for label, value in labels.items())
        ]

    def total(self, name: str, **labels: str) -> float | None:
        """Their sum; None without one."""
        found = self.select(name, **labels)
        return sum(sample.value for sample in found) if found else None

    def label_values(self, name: str, label: str) -> list[str]:
        """The values of this label, in the page's order, each once."""
        values = (sample.labels.get(label) for sample in self.samples.get(name, ()))
        return list(dict.fromkeys(value for value in values if value is not None))

    def histogram(self, name: str, **labels: str) -> Histogram | None:
        """The sum of all series with these labels; None without one, or if it is malformed."""
        series: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
        for sample in self.select(f"{name}_bucket", **labels):
            rest = frozenset((k, v) for k, v in sample.labels.items() if k != "le")
            try:
                bound = float(sample.labels.get("le", ""))
            except ValueError:
                return None
            series.setdefault(rest, []).append((bound, sample.value))
        total = self.total(f"{name}_sum", **labels)
        if not series or total is None:
            return None
        try:
            parts = []
            for buckets in series.values():
                bounds, counts = zip(*sorted(buckets), strict=True)
                parts.append(Histogram(bounds, counts, 0.0))
        except ValueError:
            return None
        added = sum_histograms(parts)
        return None if added is None else Histogram(added.bounds, added.cumulative, total)


def parse_page(text: str) -> MetricsPage:
    """The page. Raises PageUnreadable for text that is no Prometheus text, such as HTML or JSON."""
    samples: dict[str, list[Sample]] = {}
    declared: set[str] = set()
    try:
        for family in text_string_to_metric_families(text):
            declared |= _names(family)
            for sample in family.samples:
                if math.isfinite(sample.value):
                    samples.setdefault(sample.name, []).append(
                        Sample(dict(sample.labels), float(sample.value))
                    )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise PageUnreadable(f"it is no Prometheus text (it {_looks(text)})") from error
    if not samples:
        raise PageUnreadable(f"it shows no metric (it {_looks(text)})")
    return MetricsPage(samples, frozenset(declared))


def _names(family: Metric) -> set[str]:
    """The names that its samples can have; of a counter with samples only those that they have."""
    if family.type == "counter" and family.samples:
        return {sample.name for sample in family.samples}
    return {family.name + ending for ending in _ENDINGS.get(family.type, ("",))}


def _looks(text: str) -> str:
    """How the text begins, for a message.

    >>> _looks("<!doctype html><p>Hello")
    'is an HTML page'
    """
    beginning = text.lstrip()[:200].lower()
    if not beginning:
        return "is empty"
    if beginning.startswith(("<!doctype html", "<html")):
        return "is an HTML page"
    if beginning.startswith(("{", "[")):
        return "is JSON"
    return f"begins with {beginning[:40]!r}"

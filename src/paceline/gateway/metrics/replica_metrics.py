"""Metrics that are read from each replica at a scrape: the form of a definition, and its collector.

Only the machinery: the definitions are in `replica_definitions`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from paceline.gateway.fleet import ReplicaLoad
from paceline.gateway.replicas import Replica
from paceline.printable import printable


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """What is known of one replica at a scrape."""

    replica: Replica
    governor: Mapping[str, object] | None
    """State of its governor, as in /admin/governor; None if it could not be read."""
    load: ReplicaLoad | None
    """None if it could not be read."""


Read = Callable[[ReplicaFacts], float | None]
"""The value of a metric for one replica; None for no sample."""


@dataclass(frozen=True, slots=True)
class ReplicaMetric:
    """One metric with the label `replica`: a counter if its name ends in _total, else a gauge."""

    name: str
    help: str
    read: Read

    @property
    def labels(self) -> tuple[str, ...]:
        return ("replica",)


@dataclass(frozen=True, slots=True)
class CategoryMetric:
    """One metric with the labels `replica` and `category`, from the governor's watch for drift."""

    name: str
    help: str
    key: str
    """Of the state of a category."""

    @property
    def labels(self) -> tuple[str, ...]:
        return ("replica", "category")

    def read(self, facts: ReplicaFacts) -> Mapping[str, float]:
        """The values by category; a category whose value is not a number is left out."""
        drift = None if facts.governor is None else facts.governor.get("drift")
        categories = drift.get("categories") if isinstance(drift, Mapping) else None
        if not isinstance(categories, Mapping):
            return {}
        values = {
            _label(name): _number(state.get(self.key))
            for name, state in islice(categories.items(), _MAX_CATEGORIES)
            if isinstance(state, Mapping)
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class InterTokenHistogram:
    """The times between tokens that a replica reports, as a histogram with the label `replica`."""

    name: str
    help: str

    @property
    def labels(self) -> tuple[str, ...]:
        return ("replica",)


@dataclass(frozen=True, slots=True)
class TextMetric:
    """A text of the governor's state as a label, with the value 1; no sample while it is unknown.

    Each number of the text becomes N, so that the number of series stays bounded.
    """

    name: str
    help: str
    label: str
    key: str
    """Of the governor's state."""

    @property
    def labels(self) -> tuple[str, ...]:
        return ("replica", self.label)

    def read(self, facts: ReplicaFacts) -> Mapping[str, float]:
        """1 by the text; empty without one."""
        text = None if facts.governor is None else facts.governor.get(self.key)
        return {_label(_NUMBER.sub("N", text)): 1.0} if isinstance(text, str) else {}


_NUMBER = re.compile(r"\d+(\.\d+)?")
_MAX_TEXT_CHARS = 100
"""Longer than any reason of the policies that are built in."""
_MAX_CATEGORIES = 64
"""More than a governor watches."""


def _label(text: object) -> str:
    """What another process reported, as a label value."""
    return printable(str(text)[:_MAX_TEXT_CHARS])


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """A metric of constant value 1, whose label `draft` names the drafter of a replica."""

    name: str
    help: str

    @property
    def labels(self) -> tuple[str, ...]:
        return ("replica", "draft")

    def read(self, facts: ReplicaFacts) -> Mapping[str, float]:
        """No sample where the drafter is unknown: that of a remote replica."""
        draft = facts.replica.draft
        return {} if draft is None else {draft: 1.0}


Definition = ReplicaMetric | CategoryMetric | TextMetric | DraftInfo | InterTokenHistogram
"""Of a metric of a replica."""


def from_governor(key: str) -> Read:
    """Read a number from the governor's state. Null, other types and a missing key: no sample."""
    return lambda facts: None if facts.governor is None else _number(facts.governor.get(key))


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if abs(value) <= sys.float_info.max else None  # a larger integer has no float


def from_load(read_load: Callable[[ReplicaLoad], float | None]) -> Read:
    """Read a figure of the load that the replica reports."""
    return lambda facts: None if facts.load is None else read_load(facts.load)


class ReplicaCollector(Collector):
    """The values of all definitions for all replicas, for one scrape."""

    def __init__(
        self,
        definitions: Sequence[Definition],
        facts: Sequence[ReplicaFacts],
    ) -> None:
        self._definitions = definitions
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        for definition in self._definitions:
            if isinstance(definition, InterTokenHistogram):
                yield self._inter_token(definition)
                continue
            is_counter = definition.name.endswith("_total")
            family_type = CounterMetricFamily if is_counter else GaugeMetricFamily
            family = family_type(definition.name, definition.help, labels=definition.labels)
            for facts in self._facts:
                values = definition.read(facts)
                if isinstance(values, Mapping):
                    for label, value in values.items():
                        family.add_metric([facts.replica.name, label], value)
                elif values is not None:
                    family.add_metric([facts.replica.name], values)
            yield family

    def _inter_token(self, definition: InterTokenHistogram) -> Metric:
        family = HistogramMetricFamily(definition.name, definition.help, labels=definition.labels)
        for facts in self._facts:
            times = None if facts.load is None else facts.load.inter_token
            if times is not None:
                family.add_metric([facts.replica.name], times.buckets, times.total_s)
        return family

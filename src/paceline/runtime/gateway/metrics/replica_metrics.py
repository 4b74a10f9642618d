"""Metrics that are read from each replica at a scrape: the form of a definition, and its collector.

Only the machinery: the definitions are in `replica_definitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from paceline.foundation.servers.governor_metrics import GovernorMetric
from paceline.runtime.gateway.fleet import ReplicaLoad
from paceline.runtime.gateway.replicas import Replica


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


@dataclass(frozen=True, slots=True)
class InterTokenHistogram:
    """The times between tokens that a replica reports, as a histogram with the label `replica`."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class DraftInfo:
    """A metric of constant value 1, whose label `draft` names the drafter of a replica."""

    name: str
    help: str
    label: ClassVar[str] = "draft"

    def read(self, facts: ReplicaFacts) -> Mapping[str, float]:
        """No sample where the drafter is unknown: that of a remote replica."""
        draft = facts.replica.draft
        return {} if draft is None else {draft: 1.0}


Definition = ReplicaMetric | GovernorMetric | DraftInfo | InterTokenHistogram
"""Of a metric of a replica."""


def labels_of(definition: Definition) -> tuple[str, ...]:
    """The labels of its samples, `replica` first."""
    label = getattr(definition, "label", "")
    return ("replica", label) if label else ("replica",)


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
            labels = labels_of(definition)
            family = family_type(definition.name, definition.help, labels=labels)
            for facts in self._facts:
                for label, value in _values(definition, facts).items():
                    family.add_metric([facts.replica.name, label][: len(labels)], value)
            yield family

    def _inter_token(self, definition: InterTokenHistogram) -> Metric:
        family = HistogramMetricFamily(
            definition.name, definition.help, labels=labels_of(definition)
        )
        for facts in self._facts:
            times = None if facts.load is None else facts.load.inter_token
            if times is not None:
                family.add_metric([facts.replica.name], times.buckets, times.total_s)
        return family


def _values(
    definition: ReplicaMetric | GovernorMetric | DraftInfo, facts: ReplicaFacts
) -> Mapping[str, float]:
    """The values by the second label, by "" without one."""
    if isinstance(definition, GovernorMetric):
        return {} if facts.governor is None else definition.read(facts.governor)
    values = definition.read(facts)
    if isinstance(values, Mapping):
        return values
    return {} if values is None else {"": values}

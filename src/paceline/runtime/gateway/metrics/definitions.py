"""Every metric of the gateway as a value: name, kind, help text, labels and their known values.

Alert rules, dashboards and docs/metrics.md are generated from these, so that none of them can use a
metric that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.replica_definitions import ALL_REPLICA_METRICS
from paceline.runtime.gateway.metrics.replica_metrics import ReplicaCollector, labels_of

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric."""

    name: str
    """As on the metrics page; a histogram's without _bucket, _sum and _count."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By label, the values that exist from the start; none for labels such as `replica`."""


def metric_definitions() -> dict[str, MetricDefinition]:
    """All metrics by name, those of requests first."""
    metrics = GatewayMetrics()
    labels = {
        metric._name: tuple(metric._labelnames)  # no public attribute has them
        for metric in vars(metrics).values()
        if isinstance(metric, MetricWrapperBase)
    }
    definitions = [
        _definition(family, labels[family.name]) for family in metrics.registry.collect()
    ]
    of_replicas = ReplicaCollector(ALL_REPLICA_METRICS, ()).collect()
    definitions += [
        _definition(family, labels_of(metric))
        for family, metric in zip(of_replicas, ALL_REPLICA_METRICS, strict=True)
    ]
    return {definition.name: definition for definition in definitions}


def _definition(family: Metric, labels: tuple[str, ...]) -> MetricDefinition:
    kind = _KINDS[family.type]
    values: dict[str, dict[str, None]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label in labels:  # not le, which a histogram adds
                values.setdefault(label, {})[value] = None
    return MetricDefinition(
        name=f"{family.name}_total" if kind == "counter" else family.name,
        kind=kind,
        help=family.documentation,
        labels=labels,
        values={label: tuple(found) for label, found in values.items()},
    )


_KINDS: Mapping[str, Kind] = {"counter": "counter", "gauge": "gauge", "histogram": "histogram"}

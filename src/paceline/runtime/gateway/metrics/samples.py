"""Sum the metrics of several processes.

Counters, histograms and gauges that count something are summed. Gauges for which a sum makes no
sense are set only by the process that renders the page. The names are defined in `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_Labels = tuple[tuple[str, str], ...]


class FamilyOfSamples(msgspec.Struct, frozen=True, array_like=True):
    """One metric of one process."""

    name: str
    is_gauge: bool
    samples: dict[str, tuple[tuple[_Labels, float], ...]]
    """By sample name, such as …_bucket and …_sum of a histogram."""


def samples_of(families: Iterable[Metric]) -> tuple[FamilyOfSamples, ...]:
    """The current values, without the creation times (…_created), which cannot be summed."""
    taken = []
    for family in families:
        samples: dict[str, list[tuple[_Labels, float]]] = {}
        for sample in family.samples:
            if sample.name != f"{family.name}_created":
                samples.setdefault(sample.name, []).append((_labels_of(sample), sample.value))
        by_name = {name: tuple(values) for name, values in samples.items()}
        taken.append(FamilyOfSamples(family.name, family.type == "gauge", by_name))
    return tuple(taken)


def only_counted(families: Sequence[FamilyOfSamples]) -> Sequence[FamilyOfSamples]:
    """Without the gauges, which are meaningless once the process has ended."""
    return [family for family in families if not family.is_gauge]


def add_samples(
    processes: Iterable[Sequence[FamilyOfSamples]],
) -> tuple[FamilyOfSamples, ...]:
    """The sums over all processes."""
    is_gauge: dict[str, bool] = {}
    sums: dict[str, dict[str, dict[_Labels, float]]] = {}
    for families in processes:
        for family in families:
            is_gauge[family.name] = family.is_gauge
            family_sums = sums.setdefault(family.name, {})
            for name, samples in family.samples.items():
                sample_sums = family_sums.setdefault(name, {})
                for labels, value in samples:
                    sample_sums[labels] = sample_sums.get(labels, 0.0) + value
    return tuple(
        FamilyOfSamples(
            family,
            is_gauge[family],
            {name: tuple(by_labels.items()) for name, by_labels in family_sums.items()},
        )
        for family, family_sums in sums.items()
    )


class Summed(Collector):
    """The metrics of this process plus those of other processes."""

    def __init__(self, own: Collector, others: Sequence[FamilyOfSamples]) -> None:
        self._own = own
        self._others = {family.name: family for family in others}

    def collect(self) -> Iterator[Metric]:
        for family in self._own.collect():
            others = self._others.get(family.name)
            yield family if others is None else _with_added(family, others)


def _with_added(own: Metric, others: FamilyOfSamples) -> Metric:
    remaining = {
        (name, labels): value
        for name, samples in others.samples.items()
        for labels, value in samples
    }
    summed = Metric(own.name, own.documentation, own.type)
    for sample in own.samples:
        added = remaining.pop((sample.name, _labels_of(sample)), 0.0)
        summed.samples.append(sample._replace(value=sample.value + added))
    for (name, labels), value in remaining.items():  # labels that this process has not used
        summed.add_sample(name, dict(labels), value)
    return summed


def _labels_of(sample: Sample) -> _Labels:
    return tuple(sorted(sample.labels.items()))

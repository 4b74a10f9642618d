"""How are the metrics of several processes made into one page?

Values and sums. Counters and histograms add up, and so do gauges that count what is there; gauges
of which that is not true are set by the process that shows the page. Names are for `metrics`.
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
    """By the sample's own name, such as …_bucket and …_sum of a histogram."""


def samples_of(families: Iterable[Metric]) -> tuple[FamilyOfSamples, ...]:
    """As they are now. When a metric came to be is left out: that does not add up."""
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
    """Without the gauges: what stays true of a process that is gone."""
    return [family for family in families if not family.is_gauge]


def add_samples(
    processes: Iterable[Sequence[FamilyOfSamples]],
) -> tuple[FamilyOfSamples, ...]:
    """The sums over all of them."""
    is_gauge: dict[str, bool] = {}
    sums: dict[str, dict[str, dict[_Labels, float]]] = {}
    for families in processes:
        for family in families:
            is_gauge[family.name] = family.is_gauge
            of_family = sums.setdefault(family.name, {})
            for name, samples in family.samples.items():
                of_name = of_family.setdefault(name, {})
                for labels, value in samples:
                    of_name[labels] = of_name.get(labels, 0.0) + value
    return tuple(
        FamilyOfSamples(
            family,
            is_gauge[family],
            {name: tuple(by_labels.items()) for name, by_labels in of_family.items()},
        )
        for family, of_family in sums.items()
    )


class Summed(Collector):
    """The metrics of this process, with those of others added."""

    def __init__(self, own: Collector, others: Sequence[FamilyOfSamples]) -> None:
        self._own = own
        self._others = {family.name: family for family in others}

    def collect(self) -> Iterator[Metric]:
        for family in self._own.collect():
            others = self._others.get(family.name)
            yield family if others is None else _with_added(family, others)


def _with_added(own: Metric, others: FamilyOfSamples) -> Metric:
    left = {
        (name, labels): value
        for name, samples in others.samples.items()
        for labels, value in samples
    }
    summed = Metric(own.name, own.documentation, own.type)
    for sample in own.samples:
        added = left.pop((sample.name, _labels_of(sample)), 0.0)
        summed.samples.append(sample._replace(value=sample.value + added))
    for (name, labels), value in left.items():  # labels that this process has not met
        summed.add_sample(name, dict(labels), value)
    return summed


def _labels_of(sample: Sample) -> _Labels:
    return tuple(sorted(sample.labels.items()))

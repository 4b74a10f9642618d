"""Values that are read from each replica at a scrape."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet import ReplicaLoad
from paceline.gateway.metrics.replica_metrics import (
    ReplicaCollector,
    ReplicaFacts,
    ReplicaMetric,
    from_governor,
    from_load,
)
from paceline.gateway.replicas import Replica

R0 = Replica("r0", "/r0.sock", "tiny", "ready")


@pytest.mark.parametrize(
    ("governor", "value"),
    [
        ({"draft_length": 4}, 4),
        ({"draft_length": 0.5}, 0.5),
        ({"draft_length": None}, None),
        ({"draft_length": True}, None),
        ({"draft_length": "4"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_governor_figure_that_is_not_a_number_has_no_sample(
    governor: dict[str, object] | None, value: float | None
) -> None:
    assert from_governor("draft_length")(ReplicaFacts(R0, governor, None)) == value


def test_a_load_figure_that_is_not_reported_has_no_sample() -> None:
    read = from_load(lambda load: load.num_waiting)
    assert read(ReplicaFacts(R0, None, ReplicaLoad(num_waiting=3))) == 3
    assert read(ReplicaFacts(R0, None, ReplicaLoad())) is None
    assert read(ReplicaFacts(R0, None, None)) is None


def test_the_name_decides_between_counter_and_gauge() -> None:
    definitions = (
        ReplicaMetric("x_total", "A counter.", lambda facts: 1),
        ReplicaMetric("y", "A gauge.", lambda facts: 2),
        ReplicaMetric("z", "Without a sample.", lambda facts: None),
    )
    families = list(ReplicaCollector(definitions, [ReplicaFacts(R0, None, None)]).collect())
    assert [family.type for family in families] == ["counter", "gauge", "gauge"]
    samples = [(s.name, s.labels["replica"], s.value) for f in families for s in f.samples]
    assert samples == [("x_total", "r0", 1), ("y", "r0", 2)]

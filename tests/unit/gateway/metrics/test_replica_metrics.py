"""Values that are read from each replica at a scrape."""

from __future__ import annotations

from paceline.foundation.servers.governor_metrics import GovernorMetric
from paceline.runtime.gateway.fleet import ReplicaLoad
from paceline.runtime.gateway.metrics.replica_metrics import (
    ReplicaCollector,
    ReplicaFacts,
    ReplicaMetric,
    from_load,
)
from paceline.runtime.gateway.replicas import Replica

R1 = Replica("r1", "/r1.sock", "tiny", "ready")
R0 = Replica("r0", "/r0.sock", "tiny", "ready")


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


def test_a_figure_of_the_governor_has_the_label_of_its_metric() -> None:
    facts = ReplicaFacts(R0, {"draft_length": 4, "length_steps": {"0": 2, "3": 5}}, None)
    definitions = (
        GovernorMetric("x", "One.", ("draft_length",)),
        GovernorMetric("y_total", "Several.", ("length_steps", "*"), "draft_length"),
    )
    families = ReplicaCollector(definitions, [facts, ReplicaFacts(R1, None, None)]).collect()
    assert [(s.labels, s.value) for family in families for s in family.samples] == [
        ({"replica": "r0"}, 4),
        ({"replica": "r0", "draft_length": "0"}, 2),
        ({"replica": "r0", "draft_length": "3"}, 5),
    ]

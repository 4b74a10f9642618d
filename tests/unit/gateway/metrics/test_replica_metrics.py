"""Values that are read from each replica at a scrape."""

from __future__ import annotations

import pytest

from paceline.gateway.fleet import ReplicaLoad
from paceline.gateway.metrics.replica_metrics import (
    CategoryMetric,
    ReplicaCollector,
    ReplicaFacts,
    ReplicaMetric,
    TextMetric,
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


@pytest.mark.parametrize(
    ("drift", "values"),
    [
        ({"categories": {"code": {"x": 2}, "chat": {"x": None}, "rag": {"x": 0.5}}},
         {"code": 2, "rag": 0.5}),
        ({"categories": {"code": {}, "chat": "x"}}, {}),
        ({"categories": []}, {}),
        ({}, {}),
        (None, {}),
    ],
)  # fmt: skip
def test_a_figure_of_a_category_that_is_not_a_number_has_no_sample(
    drift: object, values: dict[str, float]
) -> None:
    metric = CategoryMetric("y", "A gauge.", "x")
    assert metric.read(ReplicaFacts(R0, {"drift": drift}, None)) == values
    (family,) = ReplicaCollector([metric], [ReplicaFacts(R0, {"drift": drift}, None)]).collect()
    samples = {s.labels["category"]: s.value for s in family.samples}
    assert samples == values
    assert all(s.labels["replica"] == "r0" for s in family.samples)


def test_a_replica_without_a_governor_has_no_categories() -> None:
    assert CategoryMetric("y", "A gauge.", "x").read(ReplicaFacts(R0, None, None)) == {}


@pytest.mark.parametrize(
    ("governor", "values"),
    [
        (
            {"why": "goodput: 1347 tokens/s expected, best of 0-4"},
            {"goodput: N tokens/s expected, best of N-N": 1.0},
        ),
        ({"why": "at 0.43 of 12.5"}, {"at N of N": 1.0}),
        ({"why": "x" * 101}, {"x" * 100: 1.0}),
        ({"why": None}, {}),
        ({"why": 3}, {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_a_text_is_a_label_without_its_numbers(
    governor: dict[str, object] | None, values: dict[str, float]
) -> None:
    metric = TextMetric("x_info", "A text.", "reason", "why")
    facts = ReplicaFacts(R0, governor, None)
    assert metric.read(facts) == values
    (family,) = ReplicaCollector((metric,), [facts]).collect()
    samples = [(sample.labels, sample.value) for sample in family.samples]
    assert samples == [({"replica": "r0", "reason": text}, 1.0) for text in values]


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_an_integer_that_no_float_can_hold_has_no_sample(number: int) -> None:
    facts = ReplicaFacts(R0, {"draft_length": number}, None)
    assert from_governor("draft_length")(facts) is None


def test_texts_and_categories_of_a_governor_are_bounded_and_printable() -> None:
    categories = {f"c{i}\x1b" + "x" * 1000: {"events_total": i} for i in range(1000)}
    facts = ReplicaFacts(R0, {"drift": {"categories": categories}, "why": "a\r\nb" * 100}, None)
    values = CategoryMetric("x_total", "X.", "events_total").read(facts)
    values = {**values, **TextMetric("y", "Y.", "reason", "why").read(facts)}
    assert len(values) == 65
    assert all(len(label) <= 100 and label.replace("\ufffd", "").isprintable() for label in values)

"""The metrics of a governor's state, and the state from a page of them."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.servers.governor_metrics import GOVERNOR_METRICS, GovernorMetric, state_of

NUMBER = GovernorMetric("x", "A number.", ("draft_length",))
CATEGORY = GovernorMetric("y", "Of a category.", ("drift", "categories", "*", "x"), "category")
TEXT = GovernorMetric("z_info", "A text.", ("why",), "reason", is_text=True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (4, {"": 4.0}),
        (0.5, {"": 0.5}),
        (None, {}),
        (True, {}),
        ("4", {}),
        (10**400, {}),
        (-(10**400), {}),
        (float("nan"), {}),
    ],
)
def test_a_value_that_is_not_a_number_has_no_sample(value: object, found: dict[str, float]) -> None:
    assert NUMBER.read({"draft_length": value}) == found
    assert NUMBER.read({}) == {}


@pytest.mark.parametrize(
    ("drift", "values"),
    [
        ({"categories": {"code": {"x": 2}, "chat": {"x": None}, "rag": {"x": 0.5}}},
         {"code": 2, "rag": 0.5}),
        ({"categories": {"code": {}, "chat": "x"}}, {}),
        ({"categories": []}, {}),
        ({"categories": 3}, {}),
        ({}, {}),
        (None, {}),
    ],
)  # fmt: skip
def test_a_star_stands_for_every_key(drift: object, values: dict[str, float]) -> None:
    assert CATEGORY.read({"drift": drift}) == values


def test_the_entries_of_a_list_are_labelled_by_their_index() -> None:
    metric = GovernorMetric("x_total", "By position.", ("accepted", "*"), "position")
    assert metric.read({"accepted": [7, 2]}) == {"0": 7, "1": 2}


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ("goodput: 1347 tokens/s, best of 0-4", {"goodput: N tokens/s, best of N-N": 1.0}),
        ("at 0.43 of 12.5", {"at N of N": 1.0}),
        ("x" * 101, {"x" * 100: 1.0}),
        ("", {}),
        (None, {}),
        (3, {}),
    ],
)
def test_a_text_is_a_label_without_its_numbers(value: object, values: dict[str, float]) -> None:
    assert TEXT.read({"why": value}) == values


def test_texts_and_categories_are_bounded_and_printable() -> None:
    categories = {f"c{i}\x1b" + "x" * 1000: {"x": i} for i in range(1000)}
    values = CATEGORY.read({"drift": {"categories": categories}})
    values |= TEXT.read({"why": "a\r\nb" * 100})
    assert len(values) == 65
    assert all(len(label) <= 100 and label.replace("\ufffd", "").isprintable() for label in values)


def test_a_page_of_the_metrics_gives_the_state_back() -> None:
    """What a page does not show is missing: exact lists, and numbers in texts."""
    state: dict[str, Any] = {
        "policy": "goodput",
        "draft_length": 3,
        "safe_plan_steps_total": 0,
        "length_steps": {"0": 2, "3": 5},
        "drift": {"categories": {"code": {"acceptance": 0.5, "events_total": 1}}},
        "last_change_reason": "3 of 8: acceptance 0.61",
        "steps_total": None,
    }
    page = {metric.name: metric for metric in GOVERNOR_METRICS}
    found = state_of(
        lambda name: [
            ({page[name].label: label}, value) for label, value in page[name].read(state).items()
        ]
    )
    expected = dict(state, last_change_reason="N of N: acceptance N")
    del expected["steps_total"]
    assert found == expected


def test_a_text_that_no_longer_holds_is_not_read() -> None:
    found = state_of(
        lambda name: (
            [({"policy": "fixed"}, 0.0), ({"policy": "goodput"}, 1.0)]
            if name == "paceline_governor_policy_info"
            else []
        )
    )
    assert found == {"policy": "goodput"}

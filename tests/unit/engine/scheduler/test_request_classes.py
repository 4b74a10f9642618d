"""Classes by sampling parameters, and how many requests have each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.scheduler.request_classes import RequestClasses, class_of

PLAIN: dict[str, Any] = {
    "temperature": 0.0,
    "structured_outputs": None,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": None,
    "allowed_token_ids": None,
    "bad_words": [],
    "min_tokens": 0,
}


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({}, "greedy"),
        ({"temperature": 0.7}, "sampled"),
        ({"structured_outputs": object()}, "greedy bound"),
        ({"temperature": 1.0, "structured_outputs": object()}, "sampled bound"),
        ({"repetition_penalty": 1.2}, "greedy bound"),
        ({"presence_penalty": -0.5}, "greedy bound"),
        ({"frequency_penalty": 0.5}, "greedy bound"),
        ({"logit_bias": {5: 1.0}}, "greedy bound"),
        ({"allowed_token_ids": [1]}, "greedy bound"),
        ({"bad_words": ["a"]}, "greedy bound"),
        ({"min_tokens": 4}, "greedy bound"),
    ],
)
def test_the_class_says_how_a_request_samples_and_whether_its_answer_is_bound(
    parameters: dict[str, Any], name: str
) -> None:
    assert class_of(SimpleNamespace(**PLAIN | parameters)) == name


def test_a_pooling_request_has_no_sampling_parameters() -> None:
    assert class_of(None) == "greedy"


def test_requests_are_counted_by_class() -> None:
    classes = RequestClasses()
    for name, kind in {"a": "greedy", "b": "sampled", "c": "greedy"}.items():
        classes.set(name, kind)
    assert classes.count(["a", "b", "c"]) == {"greedy": 2, "sampled": 1}
    assert classes.of(["b", "a"]) == ("sampled", "greedy")


def test_where_one_class_is_unknown_none_is_reported() -> None:
    """An engine that reports classes reports them of all requests."""
    classes = RequestClasses()
    classes.set("a", "greedy")
    assert classes.count(["a", "b"]) == {}
    assert classes.of(["a", "b"]) == ()


def test_the_classes_of_ended_requests_are_dropped_once_there_are_many() -> None:
    classes = RequestClasses()
    for number in range(5000):
        classes.set(str(number), "greedy")
    classes.forget_ended({"4999": object()})
    assert classes.count(["4999"]) == {"greedy": 1}
    assert classes.count(["0"]) == {}

"""The cap and the class of a request, from its sampling parameters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.request_parameters import cap_of, class_of

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


def test_a_pooling_request_counts_as_greedy() -> None:
    assert class_of(None) == "greedy"


def parameters(**changes: Any) -> Any:
    defaults = {
        "seed": None,
        "temperature": 1.0,
        "extra_args": None,
        "min_p": 0.0,
        "logit_bias": None,
    }
    return SimpleNamespace(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("extra_args", "expected"),
    [
        (None, None),
        ({}, None),
        ({"session_id": "x"}, None),
        ({"paceline": {}}, 0),
        ({"paceline": {"max_draft_length": None}}, None),
        ({"paceline": {"max_draft_length": 3}}, 3),
        ({"paceline_max_draft_length": 2}, 2),
        ({"paceline_max_draft_length": 2.0}, 0),
        ({"paceline_max_draft_length": -1}, 0),
        ({"paceline": 3}, 0),
    ],
)
def test_the_cap_is_read_from_the_extra_arguments(
    extra_args: dict[str, Any] | None, expected: int | None
) -> None:
    """What is given and is no cap switches speculation off."""
    assert cap_of(parameters(extra_args=extra_args)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, None), ({"seed": 0}, 0), ({"seed": 7, "temperature": 0.0}, None)],
)
def test_reproducible_seeds_cap_requests_that_sample_with_one(
    changes: dict[str, Any], expected: int | None
) -> None:
    assert cap_of(parameters(**changes), reproducible_seeds=True) == expected
    assert cap_of(parameters(**changes)) is None


@pytest.mark.parametrize("changes", [{"min_p": 0.1}, {"logit_bias": {5: 1.0}}])
def test_a_request_whose_drafts_cannot_be_verified_exactly_is_capped_at_0(
    changes: dict[str, Any],
) -> None:
    """Whatever its own cap."""
    assert cap_of(parameters(extra_args={"paceline_max_draft_length": 3}, **changes)) == 0


@pytest.mark.parametrize(("cap", "is_logged"), [(0, False), (-1, True)])
def test_only_what_is_no_cap_is_logged(
    cap: int, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cap_of(parameters(extra_args={"paceline_max_draft_length": cap}))
    assert ("must be a whole number from 0" in caplog.text) is is_logged


def test_a_pooling_request_has_no_cap() -> None:
    assert cap_of(None, reproducible_seeds=True) is None

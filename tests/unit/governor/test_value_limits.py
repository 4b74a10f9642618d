"""The values refuse what no engine can measure and no engine can carry out."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from paceline.runtime.governor.values import (
    DraftPlan,
    DraftRule,
    EngineLoad,
    StepSample,
    check_widths,
)

SAMPLE = StepSample(
    num_requests=3,
    requested_draft_length=4,
    drafted=(4, 2, 0),
    accepted=(4, 1, 0),
    verified_draft_tokens=7,
    draft_length=3,
    prefill_tokens=20,
    context_tokens=900,
    duration_s=0.02,
    is_clean=True,
    judged=("a", "b", "c"),
)
LOAD = EngineLoad(2, 300, 0, 0, 8)


def test_the_target_computes_one_token_per_request_and_the_drafts() -> None:
    """Three requests and seven draft tokens, one of them of a draft that was not judged."""
    assert SAMPLE.verified_tokens == 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_requests": -1}, "num_requests is -1; it must not be negative"),
        ({"requested_draft_length": -1}, "requested_draft_length is -1; it must not be negative"),
        ({"draft_length": -1}, "draft_length is -1; it must not be negative"),
        ({"prefill_tokens": -1}, "prefill_tokens is -1; it must not be negative"),
        ({"context_tokens": -1}, "context_tokens is -1; it must not be negative"),
        ({"num_prefilling": -1}, "num_prefilling is -1; it must be from 0 to num_requests, 3"),
        ({"num_prefilling": 4}, "num_prefilling is 4; it must be from 0 to num_requests, 3"),
        ({"duration_s": -0.001}, "duration_s is -0.001; it must not be negative"),
        ({"duration_s": float("nan")}, "duration_s is nan; it must not be negative"),
        ({"verified_draft_tokens": 5}, "is 5; it must be at least the sum of drafted, 6"),
        ({"accepted": (4, 1)}, "drafted has 3 entries, accepted 2; both need one per judged"),
        ({"accepted": (4, 3, 0)}, r"accepted is \(4, 3, 0\); each entry must be 0 to its entry"),
        ({"accepted": (4, -1, 0)}, r"accepted is \(4, -1, 0\); each entry must be 0 to its entry"),
        ({"judged": ("a", "b")}, "judged has 2 entries, drafted 3; it needs one per judged"),
        ({"requested": (4, 4)}, "requested has 2 entries, drafted 3"),
        ({"classes": ("greedy",)}, "classes has 1 entries, drafted 3; it needs one per judged"),
        ({"confidences": ((0.5,) * 4,)}, "confidences needs one entry for each token of drafted"),
        ({"confidences": ((0.5,) * 4, (0.5,), ())}, "confidences needs one entry for each token"),
    ],
)
def test_an_impossible_sample_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SAMPLE, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        dict.fromkeys(("requested_draft_length", "draft_length", "prefill_tokens"), 0),
        {"num_requests": 0, "context_tokens": 0},
        {"verified_draft_tokens": 6},
        {"duration_s": 0.0},
        {"duration_s": None},
        {"judged": ()},
        {"requested": (4, 2, 1)},
        {"drafted": (), "accepted": (), "judged": ()},
        {"classes": ("greedy", "sampled", "greedy")},
        {"confidences": ((0.5,) * 4, (0.5,) * 2, ())},
    ],
)
def test_the_least_possible_sample_is_accepted(changes: dict[str, Any]) -> None:
    assert replace(SAMPLE, **changes) == replace(SAMPLE, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draft_length": -1}, r"draft_length is -1; it must be a whole number, 0 \(off\) or more"),
        ({"draft_length": True}, "draft_length is True; it must be a whole number"),
        ({"draft_length": 2.0}, r"draft_length is 2\.0; it must be a whole number"),
        ({"reason": b"planted"}, "reason is b'planted'; it must be a text"),
        ({"expected_tokens_per_s": "9"}, "expected_tokens_per_s is '9'; it must be a number"),
        ({"rule": 0.5}, r"rule is 0\.5; it must be a DraftRule"),
    ],
)
def test_an_impossible_plan_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        replace(DraftPlan(1, "planted"), **changes)


@pytest.mark.parametrize("widths", [[0, 3], (1, 2)])
def test_possible_widths_are_accepted(widths: Any) -> None:
    check_widths(widths, (2, 3))


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ([1], "the policy chose 1 widths for 2 requests"),
        ([1, 1, 1], "the policy chose 3 widths for 2 requests"),
        ([4, 0], r"the widths \[4, 0\]; each must be a whole number from 0 to 3"),
        ([0, -1], r"the widths \[0, -1\]; each"),
        ([0, True], r"the widths \[0, True\]; each"),
        ([0.5, 0], r"the widths \[0\.5, 0\]; each"),
    ],
)
def test_impossible_widths_are_refused(widths: Any, message: str) -> None:
    """Two requests, for which three tokens each were drafted."""
    with pytest.raises(ValueError, match=message):
        check_widths(widths, (2, 3))


@pytest.mark.parametrize("least_survival", [-0.1, float("inf"), float("nan")])
def test_an_impossible_rule_is_refused(least_survival: float) -> None:
    with pytest.raises(ValueError, match="it must be finite and not negative"):
        DraftRule({}, least_survival, ())


def test_a_rule_may_verify_everything() -> None:
    assert DraftRule({}, 0.0, ()).least_survival == 0.0


@pytest.mark.parametrize("value", [SAMPLE, LOAD, DraftPlan(0, "planted"), DraftRule({}, 0.0, ())])
def test_values_do_not_change_and_take_no_other_fields(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter(type(value).__dataclass_fields__)), 1)
    assert not hasattr(value, "__dict__")


def test_what_is_not_said_is_absent() -> None:
    """An engine or a policy without these abilities need not mention them."""
    assert (LOAD.reports_confidences, LOAD.classes) == (False, {})
    assert (LOAD.num_prefilling, SAMPLE.num_prefilling, SAMPLE.num_ended) == (0, 0, 0)
    plan = DraftPlan(0, "planted")
    assert (plan.is_exploring, plan.expected_tokens_per_s, plan.rule) == (False, None, None)
    assert (SAMPLE.catches_up, SAMPLE.classes, SAMPLE.confidences) == (False, (), ())

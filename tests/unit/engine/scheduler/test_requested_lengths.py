"""The draft length requested of each request, over steps, caps and requests that join."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.engine.scheduler.requested_lengths import Requested, RequestedLengths, cap_of


def ids(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, 1)


def after(*steps: tuple[dict[str, int], int]) -> RequestedLengths:
    lengths = RequestedLengths()
    for request_ids, length in steps:
        lengths.note(request_ids, length)
    return lengths


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], Requested(0, {}, False)),
        ([(ids("a", "b", "c"), 3)], Requested(3, {}, False)),
        ([(ids("a", "b", "c"), 0)], Requested(0, {}, True)),
        ([(ids("a", "b", "c", "ended"), 3)], Requested(3, {}, False)),
        ([(ids("a", "b"), 3)], Requested(3, {}, False)),
        ([(ids("a", "b", "c"), 1), (ids("a", "b"), 3)], Requested(3, {"c": 1}, False)),
        ([(ids("a", "b", "c"), 3), (ids("a", "b"), 1)], Requested(3, {"a": 1, "b": 1}, False)),
        ([(ids("a"), 3), (ids("b"), 2), (ids("c"), 3)], Requested(3, {"b": 2}, False)),
        ([(ids("b", "c"), 3), (ids("a"), 0)], Requested(3, {"a": 0}, True)),
        ([(ids("a", "b", "c"), 2), (ids("d"), 5)], Requested(2, {}, False)),
        ([(ids("d"), 2), (ids("e"), 5)], Requested(0, {}, False)),
        ([(ids("b"), 1), (ids("a"), 3)], Requested(3, {"b": 1}, False)),
    ],
)
def test_the_last_step_of_each_request_counts(
    steps: list[tuple[dict[str, int], int]], expected: Requested
) -> None:
    found = after(*steps).of(ids("a", "b", "c"))
    assert replace(found, steps=()) == expected


def test_nothing_was_requested_of_a_request_that_joins() -> None:
    requested = after((ids("a"), 1), (ids("a", "b"), 3)).of(ids("a", "b", "new"))
    assert [requested.of(name) for name in ("a", "b", "new")] == [3, 3, 0]
    requested = after((ids("a"), 3)).of(ids("a", "new"))
    assert [requested.of(name) for name in ("a", "new")] == [3, 0]


def test_a_cap_limits_what_was_requested() -> None:
    """The plan was 3; caps of 1 and 5. With all capped the longest is the highest of them."""
    lengths = after((ids("a", "b", "c"), 3))
    lengths.set_cap("a", 1)
    lengths.set_cap("b", 5)
    requested = lengths.of(ids("a", "b", "c"))
    assert (requested.longest, requested.others) == (3, {"a": 1, "b": 3})
    lengths.set_cap("b", 2)
    requested = lengths.of(ids("a", "b"))
    assert (requested.longest, requested.others) == (2, {"a": 1, "b": 2})
    lengths.set_cap("a", None)
    assert lengths.of(ids("a")).others == {}
    assert (lengths.planned("b"), lengths.planned("unknown")) == (3, 0)


@pytest.mark.parametrize(
    ("caps", "expected"),
    [({}, 4), ({"a": 1}, 4), ({"a": 1, "b": 2}, 2), ({"a": 9, "b": 0}, 4), ({"a": 0, "b": 0}, 0)],
)
def test_nothing_is_planned_beyond_the_highest_cap(caps: dict[str, int], expected: int) -> None:
    lengths = RequestedLengths()
    for name, cap in caps.items():
        lengths.set_cap(name, cap)
    assert lengths.ceiling(ids("a", "b"), 4) == expected


def test_caps_of_ended_requests_are_dropped_once_they_are_many() -> None:
    lengths = RequestedLengths()
    for number in range(5000):
        lengths.set_cap(str(number), 1)
    lengths.forget_ended({"7": None})
    assert lengths.capped({"7", "8"}) == {"7": 1}


@pytest.mark.parametrize(("num_caps", "num_kept"), [(4096, 4096), (4097, 0)])
def test_up_to_4096_caps_are_kept(num_caps: int, num_kept: int) -> None:
    lengths = RequestedLengths()
    names = [str(number) for number in range(num_caps)]
    for name in names:
        lengths.set_cap(name, 1)
    lengths.forget_ended({})
    assert len(lengths.capped(names)) == num_kept


def test_caps_are_looked_through_again_once_they_have_doubled() -> None:
    """3,000 of 5,000 stay; the next look is at more than 6,000."""
    lengths = RequestedLengths()
    for number in range(5000):
        lengths.set_cap(str(number), 1)
    lengths.forget_ended({str(number): None for number in range(3000)})
    names = [str(number) for number in range(9000)]
    num_kept = []
    for end in (6000, 6001):
        for number in range(3000, end):
            lengths.set_cap(str(number), 1)
        lengths.forget_ended({"7": None})
        num_kept.append(len(lengths.capped(names)))
    assert num_kept == [6000, 1]


@pytest.mark.parametrize(("num_since", "expected"), [(15, {"b": 1}), (16, {})])
def test_sixteen_steps_are_remembered(num_since: int, expected: dict[str, int]) -> None:
    """b waits: of its last step one token was requested, of those since then three."""
    steps = [(ids("a"), 3), (ids("b"), 1), *[(ids("a"), 3)] * num_since]
    requested = after(*steps).of(ids("a", "b"))
    assert (requested.longest, requested.others) == (3, expected)
    assert requested.of("b") == (1 if expected else 0)


def test_what_was_requested_does_not_change() -> None:
    requested = Requested(3, {}, False)
    with pytest.raises(FrozenInstanceError):
        requested.longest = 4  # type: ignore[misc]
    assert not hasattr(requested, "__dict__")


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


def with_widths(length: int, **widths: int) -> RequestedLengths:
    """A step at length 8 that drafted fewer tokens, of which these are verified."""
    lengths = after((ids(*widths), 8))
    lengths.note_drafted(length, widths)
    return lengths


def test_widths_are_what_was_requested() -> None:
    """The passes that were made are the step's length; the widest draft is the longest."""
    lengths = with_widths(5, a=4, b=0, c=2)
    requested = lengths.of(ids("a", "b", "c"))
    assert [requested.of(name) for name in "abc"] == [4, 0, 2]
    assert requested.longest == 4
    assert lengths.planned("a") == 5


def test_a_request_that_joins_has_no_width() -> None:
    requested = with_widths(5, a=4).of(ids("a", "new"))
    assert (requested.of("a"), requested.of("new")) == (4, 0)


def test_a_cap_below_the_width_counts() -> None:
    lengths = with_widths(5, a=4, b=3)
    lengths.set_cap("a", 1)
    requested = lengths.of(ids("a", "b"))
    assert (requested.of("a"), requested.of("b"), requested.longest) == (1, 3, 3)


def test_a_later_step_replaces_widths() -> None:
    """Only b was in it."""
    lengths = with_widths(5, a=4, b=1)
    lengths.note(ids("b"), 3)
    requested = lengths.of(ids("a", "b"))
    assert (requested.of("a"), requested.of("b")) == (4, 3)


def test_steps_without_widths_are_alike_again() -> None:
    """Once the step with widths is forgotten, nothing is done per request."""
    lengths = with_widths(5, a=4)
    for _ in range(16):
        lengths.note(ids("a"), 5)
    requested = lengths.of(ids("a"))
    assert (requested.longest, requested.others) == (5, {})

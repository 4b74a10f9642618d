"""What is known of requests over steps: tokens asked for, caps and classes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from paceline.runtime.engine.scheduler.request_ledger import RequestLedger


def after(*steps: tuple[str, int]) -> RequestLedger:
    """A ledger after steps with these requests, one per letter, and lengths."""
    ledger = RequestLedger()
    for request_ids, length in steps:
        ledger.ask(request_ids, length)
    return ledger


def with_caps(**caps: int | None) -> RequestLedger:
    ledger = RequestLedger()
    for name, cap in caps.items():
        ledger.add(name, "greedy", cap)
    return ledger


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], (0, 0, 0)),
        ([("abc", 3)], (3, 3, 3)),
        ([("abcd", 3)], (3, 3, 3)),
        ([("ab", 3)], (3, 3, 0)),
        ([("abc", 1), ("ab", 3)], (3, 3, 1)),
        ([("abc", 3), ("ab", 1)], (1, 1, 3)),
        ([("a", 3), ("b", 2), ("c", 3)], (3, 2, 3)),
        ([("bc", 3), ("a", 0)], (0, 3, 3)),
        ([("d", 2), ("e", 5)], (0, 0, 0)),
    ],
)
def test_the_last_step_of_each_request_counts(
    steps: list[tuple[str, int]], expected: tuple[int, ...]
) -> None:
    """Nothing was asked of one that joins."""
    assert after(*steps).asked("abc") == expected


def test_a_cap_limits_what_is_asked() -> None:
    ledger = with_caps(a=1, b=5, c=None)
    ledger.ask("abc", 3)
    assert ledger.asked("abc") == (1, 3, 3)


def test_widths_are_what_was_asked() -> None:
    """A width beyond the request's cap, or beyond what was drafted, is not."""
    ledger = with_caps(a=1)
    ledger.ask("abcd", 5)
    ledger.narrow({"a": 3, "b": 0, "c": 2, "d": 9})
    assert ledger.asked("abcd") == (1, 0, 2, 5)


def test_a_later_step_replaces_widths() -> None:
    """Only b was in it."""
    ledger = after(("ab", 5))
    ledger.narrow({"a": 4, "b": 1})
    ledger.ask("b", 3)
    assert ledger.asked("ab") == (4, 3)


def full(names: Sequence[str]) -> RequestLedger:
    """A ledger that knows everything of these requests."""
    ledger = with_caps(**dict.fromkeys(names, 1))
    ledger.ask(names, 1)
    return ledger


def known(ledger: RequestLedger, names: Sequence[str]) -> list[bool]:
    """Whether caps, asked tokens and classes of all these requests are known."""
    return [
        len(ledger.capped(names)) == len(names),
        sum(ledger.asked(names)) == len(names),
        ledger.classes_of(names) != (),
    ]


def test_requests_that_ended_are_forgotten() -> None:
    ledger = full("abc")
    ledger.forget("bx")
    assert known(ledger, "b") == [False] * 3
    assert known(ledger, "ac") == [True] * 3


def test_requests_that_ended_without_a_step_are_forgotten() -> None:
    ledger = full("abc")
    ledger.forget_aborted({"a": None, "b": None, "c": None})
    assert known(ledger, "abc") == [True] * 3
    ledger.forget_aborted({"b": None})
    assert known(ledger, "b") == [True] * 3
    assert known(ledger, "a") == known(ledger, "c") == [False] * 3


def test_after_a_length_of_0_nothing_is_asked() -> None:
    ledger = after(("ab", 3))
    assert ledger.has_asked
    ledger.ask("ab", 0)
    assert not ledger.has_asked


def test_a_request_with_the_id_of_an_ended_one_is_another() -> None:
    ledger = with_caps(a=1)
    ledger.ask("a", 3)
    ledger.add("a", "sampled", None)
    assert (ledger.capped("a"), ledger.asked("a")) == ({}, (0,))
    assert ledger.classes_of("a") == ("sampled",)


def test_the_lowest_cap_holds_and_what_was_asked_stays() -> None:
    """More input for a running request may bring another cap."""
    ledger = with_caps(a=2, b=None, c=None)
    ledger.ask("abc", 3)
    for name, cap in {"a": 4, "b": 1, "c": None}.items():
        ledger.limit(name, cap)
    assert (ledger.capped("abc"), ledger.asked("abc")) == ({"a": 2, "b": 1}, (2, 3, 3))


def test_requests_are_counted_by_class() -> None:
    ledger = RequestLedger()
    for name, kind in {"a": "greedy", "b": "sampled", "c": "greedy"}.items():
        ledger.add(name, kind, None)
    assert ledger.count_classes("abc") == {"greedy": 2, "sampled": 1}
    assert ledger.classes_of(["b", "a"]) == ("sampled", "greedy")


@pytest.mark.parametrize("request_ids", ["ab", ""])
def test_where_one_class_is_unknown_none_is_reported(request_ids: Collection[str]) -> None:
    """An engine that reports classes reports them of all requests."""
    ledger = with_caps(a=None)
    assert ledger.count_classes(request_ids) == {}
    assert ledger.classes_of(request_ids) == ()

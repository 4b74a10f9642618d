"""Moments, jitter and samples of the breakers, by value."""

from __future__ import annotations

import math

import pytest

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState, OpenBreakers
from paceline.runtime.gateway.settings import FailureSettings

SETTINGS = FailureSettings(window_s=30, min_samples=10, open_s=1, max_open_s=30)
WITHOUT_JITTER = ""
"""The jitter depends on the crc32 of the name, which is 0 for no bytes."""


def end_one(breakers: Breakers, name: str, outcome: Outcome, now_s: float) -> None:
    breakers.began(name, now_s).ended(outcome, now_s)


def tripped(name: str = "a", now_s: float = 0.0) -> Breakers:
    breakers = Breakers(SETTINGS)
    end_one(breakers, name, Outcome.UNREACHABLE, now_s)
    return breakers


def test_the_open_time_ends_at_its_very_moment() -> None:
    breakers = tripped(WITHOUT_JITTER, 10.0)
    before_s = math.nextafter(11.0, 0.0)
    assert breakers.states(before_s) == {WITHOUT_JITTER: BreakerState.OPEN}
    assert breakers.admitted([WITHOUT_JITTER, "b"], before_s) == ["b"]
    assert breakers.order_among_equals(WITHOUT_JITTER, before_s) == 1
    assert breakers.states(11.0) == {WITHOUT_JITTER: BreakerState.HALF_OPEN}
    assert breakers.admitted([WITHOUT_JITTER, "b"], 11.0) == [WITHOUT_JITTER, "b"]
    assert breakers.order_among_equals(WITHOUT_JITTER, 11.0) == 0


def test_the_jitter_is_a_fifth_of_the_names_share() -> None:
    """crc32("a") is 0xE8B7BE43, 0.909 of 2^32: the time is 1 s less 0.1818 s."""
    breakers = tripped("a")
    assert breakers.states(0.8181) == {"a": BreakerState.OPEN}
    assert breakers.states(0.8183) == {"a": BreakerState.HALF_OPEN}


def test_without_allowing_open_breakers_none_may_be_admitted() -> None:
    breakers = tripped()
    assert breakers.admitted(["a"], 0.5, otherwise=OpenBreakers.NONE) == []
    assert breakers.admitted(["a", "b"], 0.5, otherwise=OpenBreakers.NONE) == ["b"]


def test_a_late_failure_of_the_first_trial_leaves_none_of_the_second() -> None:
    """The second trial is forgotten at the trip: after the open time the next one is admitted."""
    breakers = tripped()
    first = breakers.began("a", 1.0)
    breakers.began("a", 31.0)
    first.ended(Outcome.BROKEN, 32.0)
    assert breakers.states(32.0) == {"a": BreakerState.OPEN}
    assert breakers.admitted(["a", "b"], 34.0) == ["a", "b"]


def test_a_trial_is_forgotten_when_the_replica_is_found_hung() -> None:
    breakers = tripped()
    breakers.began("a", 1.0)
    breakers.trip("a", 1.5)
    assert breakers.states(1.5) == {"a": BreakerState.OPEN}
    assert breakers.admitted(["a", "b"], 3.5) == ["a", "b"]


def test_an_answer_that_breaks_off_later_counts_as_a_failure() -> None:
    breakers = Breakers(SETTINGS)
    for _ in range(10):
        ticket = breakers.began("a", 0.0)
        ticket.answered(0.1)
        ticket.ended(Outcome.BROKEN, 0.2)
    assert breakers.admitted(["a", "b"], 0.2) == ["b"]


def test_an_attempt_on_an_open_breaker_does_not_close_it_by_answering() -> None:
    breakers = tripped()
    breakers.began("a", 0.5).answered(0.6)
    assert breakers.states(0.6) == {"a": BreakerState.OPEN}


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Outcome.BROKEN, ["a"]), (Outcome.UNREACHABLE, ["a", "b"])],
)
def test_the_last_trial_says_whether_a_replica_answers_at_all(
    outcome: Outcome, expected: list[str]
) -> None:
    """With every breaker open, those that accepted a connection go first."""
    breakers = tripped("a")
    end_one(breakers, "a", outcome, 1.0)
    end_one(breakers, "b", Outcome.UNREACHABLE, 1.0)
    assert breakers.admitted(["a", "b"], 1.1) == expected

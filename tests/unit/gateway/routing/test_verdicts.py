"""Whose fault a failed attempt was, and when a breaker opens."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState, OpenBreakers
from paceline.runtime.gateway.routing.verdicts import (
    FailedAttempt,
    Record,
    Suspicion,
    Verdict,
    fails_too_often,
    verdict_at_end,
    verdict_when_another_answers,
)
from paceline.runtime.gateway.settings import FailureSettings

SETTINGS = FailureSettings(min_samples=10, max_failure_fraction=0.5, open_s=1, max_open_s=30)
A = FailedAttempt("a", Suspicion.ERROR, had_begun=False)
A_BEGUN = FailedAttempt("a", Suspicion.ERROR, had_begun=True)
A_REFUSED = FailedAttempt("a", Suspicion.REFUSAL, had_begun=False)
A_REPEATS = FailedAttempt("a", Suspicion.ERROR, had_begun=False, repeats=True)
A_BEGUN_REPEATS = FailedAttempt("a", Suspicion.ERROR, had_begun=True, repeats=True)
A_BUSY = FailedAttempt("a", Suspicion.OVERLOAD, had_begun=False)
A_BEGUN_BUSY = FailedAttempt("a", Suspicion.OVERLOAD, had_begun=True)
B = FailedAttempt("b", Suspicion.ERROR, had_begun=False)
B_REFUSED = FailedAttempt("b", Suspicion.REFUSAL, had_begun=False)


@pytest.mark.parametrize(
    ("failed", "others", "is_served", "verdict"),
    [
        (A, [], True, Verdict.AT_FAULT),
        (A, [B], True, Verdict.AT_FAULT),
        (A, [B], False, Verdict.AGREED),
        (A, [], False, Verdict.UNDECIDED),
        (A, [A], False, Verdict.UNDECIDED),
        (A, [B_REFUSED], False, Verdict.UNDECIDED),
        (A_REFUSED, [], True, Verdict.AT_FAULT),
        (A_REFUSED, [], False, Verdict.NO_FAULT),
        (A_REFUSED, [B_REFUSED], False, Verdict.NO_FAULT),
        (A_REFUSED, [B], False, Verdict.NO_FAULT),
        (A_BEGUN, [], True, Verdict.AT_FAULT),
        # the rest of a stream is another request
        (A_REPEATS, [], True, Verdict.AT_FAULT),
        (A_BEGUN_REPEATS, [], True, Verdict.UNDECIDED),
        (A_BEGUN_REPEATS, [B], False, Verdict.AGREED),
        # a busy replica is no faulty one
        (A_BUSY, [], True, Verdict.SHED),
        (A_BEGUN_BUSY, [], True, Verdict.SHED),
        (A_BUSY, [], False, Verdict.NO_FAULT),
        (A_BUSY, [B], False, Verdict.NO_FAULT),
    ],
)
def test_what_others_did_with_the_request_decides(
    failed: FailedAttempt, others: list[FailedAttempt], is_served: bool, verdict: Verdict
) -> None:
    assert verdict_at_end(failed, [failed, *others], is_served=is_served) is verdict


def test_the_first_tokens_of_another_show_nothing_about_a_later_token() -> None:
    assert verdict_when_another_answers(A) is Verdict.AT_FAULT
    assert verdict_when_another_answers(A_BEGUN) is None
    assert verdict_when_another_answers(A_BUSY) is Verdict.SHED


@pytest.mark.parametrize(
    ("record", "opens"),
    [
        # faults alone: half of ten
        (Record(5, 5), True),
        (Record(6, 5), False),
        (Record(4, 5), False),
        # a request that fails everywhere is no fault of a replica that serves others
        (Record(1, 0, num_agreed=10_000), False),
        (Record(0, 0, num_agreed=10_000, num_streaming=1), False),
        # undecided failures count as the decided ones show: 4 + 8 · 4/4 of 24, 4 + 8 · 4/8 of 20
        (Record(12, 4, num_undecided=8), True),
        (Record(12, 4, num_agreed=4, num_undecided=8), False),
        (Record(8, 4, num_agreed=4, num_undecided=8), True),
        (Record(1, 0, num_undecided=10_000), False),
        # without anything served, the cause does not matter
        (Record(0, 0, num_undecided=10), True),
        (Record(0, 0, num_agreed=10), True),
        (Record(0, 3, num_agreed=3, num_undecided=4), True),
        (Record(0, 3, num_agreed=3, num_undecided=3), False),
        # a busy replica that serves some requests is left in
        (Record(1, 0, num_shed=10_000), False),
        (Record(9, 1, num_shed=10_000), False),
        (Record(0, 0, num_shed=10_000, num_streaming=1), False),
        (Record(0, 0, num_shed=10), True),
        (Record(0, 0, num_shed=5, num_agreed=5), True),
    ],
)
def test_when_a_breaker_opens(record: Record, opens: bool) -> None:
    assert fails_too_often(record, SETTINGS) is opens


def suspend_one(breakers: Breakers, verdict: Verdict, now_s: float) -> None:
    ticket = breakers.began("a", now_s)
    ticket.suspended()
    ticket.decided(verdict, now_s)


def half_open() -> Breakers:
    """`a` waits for a trial at 2 s."""
    breakers = Breakers(SETTINGS)
    for _ in range(10):
        suspend_one(breakers, Verdict.AT_FAULT, 0.0)
    assert breakers.states(0.0)["a"] is BreakerState.OPEN
    return breakers


def test_a_failure_counts_only_with_its_verdict() -> None:
    breakers = Breakers(SETTINGS)
    tickets = [breakers.began("a", 0.0) for _ in range(10)]
    for ticket in tickets:
        ticket.suspended()
    assert breakers.num_undecided("a") == 10
    assert breakers.states(0.0)["a"] is BreakerState.CLOSED
    for ticket in tickets:
        ticket.decided(Verdict.AT_FAULT, 1.0)
    assert breakers.num_undecided("a") == 0
    assert breakers.states(1.0)["a"] is BreakerState.OPEN


def test_an_attempt_that_another_replica_continues_is_no_load_and_keeps_its_verdict() -> None:
    """The continued stream may run for an hour, on a replica that is idle but for it."""
    breakers = Breakers(SETTINGS)
    tickets = [breakers.began("a", 0.0) for _ in range(10)]
    for ticket in tickets:
        ticket.suspended()
        ticket.replaced()
    assert breakers.num_undecided("a") == 0
    for ticket in tickets:
        ticket.decided(Verdict.AT_FAULT, 1.0)
    assert breakers.states(1.0)["a"] is BreakerState.OPEN


def test_a_trial_that_another_replica_continues_keeps_its_place() -> None:
    breakers = half_open()
    trial = breakers.began("a", 2.0)
    trial.suspended()
    trial.replaced()
    assert breakers.admitted(["a", "b"], 2.0) == ["b"]


def test_a_forced_attempt_shows_whether_the_replica_accepts_connections() -> None:
    """All breakers are open, so its end counts for nothing else."""
    breakers = half_open()
    accepts = ["a"]
    for outcome, answers in (
        (Outcome.UNREACHABLE, []),
        (Outcome.UNREACHABLE, []),
        (None, accepts),
        (Outcome.BROKEN, accepts),
        (Outcome.UNREACHABLE, []),
    ):
        forced = breakers.began("a", 0.1)
        if outcome is None:
            forced.answered(0.1)
            forced.ended(Outcome.COMPLETED, 0.1)
        else:
            forced.ended(outcome, 0.1)
        assert breakers.admitted(["a"], 0.1, otherwise=OpenBreakers.ACCEPTING) == answers
        assert breakers.admitted(["a"], 0.1) == ["a"]


def test_a_refusal_that_nothing_contradicts_is_never_counted() -> None:
    breakers = Breakers(SETTINGS)
    for _ in range(100):
        suspend_one(breakers, Verdict.NO_FAULT, 0.0)
    assert breakers.states(0.0)["a"] is BreakerState.CLOSED


def test_streams_that_run_show_that_a_replica_serves() -> None:
    breakers = Breakers(SETTINGS)
    stream = breakers.began("a", 0.0)
    stream.answered(0.1)
    for _ in range(50):
        suspend_one(breakers, Verdict.UNDECIDED, 100.0)
    assert breakers.states(100.0)["a"] is BreakerState.CLOSED
    stream.suspended()  # it broke
    suspend_one(breakers, Verdict.UNDECIDED, 100.0)
    assert breakers.states(100.0)["a"] is BreakerState.OPEN


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        (Verdict.AT_FAULT, BreakerState.OPEN),
        (Verdict.UNDECIDED, BreakerState.OPEN),
        (Verdict.SHED, BreakerState.OPEN),
        (Verdict.AGREED, BreakerState.HALF_OPEN),
        (Verdict.NO_FAULT, BreakerState.HALF_OPEN),
    ],
)
def test_a_trial_keeps_its_place_until_its_verdict(verdict: Verdict, state: BreakerState) -> None:
    """Else a replica that fails at once would get one trial after the other."""
    breakers = half_open()
    trial = breakers.began("a", 2.0)
    trial.suspended()
    assert breakers.admitted(["a", "b"], 2.0) == ["b"]
    trial.decided(verdict, 2.1)
    assert breakers.states(2.1)["a"] is state
    assert ("a" in breakers.admitted(["a", "b"], 2.1)) is (state is BreakerState.HALF_OPEN)


def test_a_verdict_from_before_a_trip_or_a_restart_says_nothing() -> None:
    breakers = Breakers(SETTINGS)
    old = [breakers.began("a", 0.0) for _ in range(20)]
    for ticket in old:
        ticket.suspended()
    breakers.reset("a")
    breakers.began("a", 1.0)
    for ticket in old:
        ticket.decided(Verdict.AT_FAULT, 1.0)
    assert breakers.states(1.0)["a"] is BreakerState.CLOSED
    assert breakers.num_undecided("a") == 0


def test_an_open_breaker_of_a_replica_that_is_found_dead_is_mute() -> None:
    breakers = half_open()
    assert breakers.admitted(["a"], 0.5, otherwise=OpenBreakers.ACCEPTING) == ["a"]
    breakers.trip("a", 0.5)
    assert breakers.admitted(["a"], 0.5, otherwise=OpenBreakers.ACCEPTING) == []
    assert breakers.admitted(["a"], 0.5) == ["a"]
    assert breakers.states(1.0)["a"] is BreakerState.HALF_OPEN, "it does not open for longer"

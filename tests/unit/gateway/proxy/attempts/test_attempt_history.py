"""Counts of one request's attempts."""

from __future__ import annotations

from paceline.gateway.http.errors import INTERNAL, Problem
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt_end import AttemptEnd
from paceline.gateway.proxy.attempt_history import AttemptHistory
from paceline.gateway.proxy.failure_policy import FailureContext

BROKEN = AttemptEnd(Outcome.BROKEN)


def context(history: AttemptHistory) -> FailureContext:
    return history.failure_context(
        has_client_bytes=False,
        can_continue=False,
        num_deaths=0,
        wants_opinion=False,
        waited_s=0.0,
        has_other_replica=False,
        has_failed_replica=False,
        num_retries_left=0,
        num_continuations_left=0,
    )


def test_attempts_that_reach_no_engine_are_not_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.UNREACHABLE), continues=False)
    history.note(BROKEN, continues=False)
    assert history.num_attempts == 1


def test_every_continuation_counts_however_many_tokens_it_added() -> None:
    history = AttemptHistory()
    for _ in range(4):
        history.note(BROKEN, continues=True)
    assert (context(history).num_continuations, context(history).num_attempts) == (4, 0)


def test_the_last_refusal_is_kept_for_a_client_that_gets_no_other_answer() -> None:
    history = AttemptHistory()
    refused = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "No.", "invalid_value"))
    busy = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "Slow down.", "rate_limited"))
    for end in (refused, busy, BROKEN):
        history.note(end, continues=False)
    assert history.refusal is refused
    assert context(history).num_refusals == 1


def test_errors_that_repeat_are_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.ENGINE_ERROR, INTERNAL), continues=False)
    history.note(BROKEN, continues=False)
    assert context(history).num_repeating_errors == 1


def test_only_the_last_refusal_says_whether_the_replica_supports_the_request() -> None:
    history = AttemptHistory()
    unsupported = AttemptEnd(
        Outcome.ENGINE_REFUSED, Problem(400, "It drafts.", "unsupported_parameter", "min_p")
    )
    history.note(unsupported, continues=False)
    assert context(history).is_unsupported
    history.note(BROKEN, continues=False)
    assert not context(history).is_unsupported


def test_only_the_last_refusal_says_whether_the_replica_is_busy() -> None:
    history = AttemptHistory()
    busy = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "Slow down.", "rate_limited"))
    history.note(busy, continues=False)
    assert context(history).is_busy
    history.note(BROKEN, continues=False)
    assert not context(history).is_busy


def test_continuations_that_were_not_sent_are_not_counted() -> None:
    history = AttemptHistory()
    for outcome in (Outcome.NOT_SENT, Outcome.UNREACHABLE):
        history.note(AttemptEnd(outcome), continues=True)
    history.note(BROKEN, continues=True)
    assert context(history).num_continuations == 1


def test_the_facts_of_now_are_passed_on() -> None:
    history = AttemptHistory()
    history.note(BROKEN, continues=False)
    counts = history.failure_context(
        has_client_bytes=True,
        can_continue=True,
        num_deaths=4,
        wants_opinion=True,
        waited_s=1.5,
        has_other_replica=True,
        has_failed_replica=True,
        num_retries_left=2,
        num_continuations_left=3,
    )
    assert (counts.outcome, counts.waited_s, counts.num_attempts) == (Outcome.BROKEN, 1.5, 1)
    assert (counts.has_client_bytes, counts.can_continue, counts.has_other_replica) == (True,) * 3
    assert (counts.num_retries_left, counts.num_continuations_left) == (2, 3)
    assert counts.num_deaths == 4

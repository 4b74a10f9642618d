"""Counts of one request's attempts."""

from __future__ import annotations

from paceline.gateway.http.errors import INTERNAL, Problem
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt_end import AttemptEnd
from paceline.gateway.proxy.attempt_history import AttemptHistory
from paceline.gateway.proxy.failure_policy import FailureContext
from paceline.gateway.settings.failures import MAX_WAITS, PROGRESS_TOKENS

BROKEN = AttemptEnd(Outcome.BROKEN)


def context(history: AttemptHistory) -> FailureContext:
    return history.failure_context(
        Outcome.BROKEN,
        has_client_bytes=False,
        can_continue=False,
        waited_s=0.0,
        has_other_replica=False,
        num_retries_left=0,
        num_continuations_left=0,
    )


def test_attempts_that_reach_no_engine_are_not_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.UNREACHABLE), continues=False, num_new_tokens=0)
    history.note(BROKEN, continues=False, num_new_tokens=0)
    assert history.num_attempts == 1


def test_a_continuation_with_progress_restarts_the_count_in_a_row() -> None:
    history = AttemptHistory()
    for num_new_tokens in (0, PROGRESS_TOKENS - 1, PROGRESS_TOKENS, 0):
        history.note(BROKEN, continues=True, num_new_tokens=num_new_tokens)
    counts = context(history)
    assert (counts.num_continuations, counts.num_continuations_in_all) == (1, 4)
    assert counts.num_attempts == 0


def test_a_continuation_that_waited_for_the_client_is_counted_in_all_only() -> None:
    """Its few tokens do not show that the request makes engines fail."""
    history = AttemptHistory()
    history.note(BROKEN, continues=True, num_new_tokens=0)
    for _ in range(2):
        history.note(BROKEN, continues=True, num_new_tokens=1, waited_for_client=True)
    counts = context(history)
    assert (counts.num_continuations, counts.num_continuations_in_all) == (1, 3)
    history.note(BROKEN, continues=True, num_new_tokens=PROGRESS_TOKENS, waited_for_client=True)
    assert context(history).num_continuations == 0


def test_a_client_cannot_read_so_slowly_that_its_continuations_never_count() -> None:
    history = AttemptHistory()
    for num_counted in (*[0] * MAX_WAITS, 1, 2):
        history.note(BROKEN, continues=True, num_new_tokens=1, waited_for_client=True)
        assert context(history).num_continuations == num_counted
    history.note(BROKEN, continues=True, num_new_tokens=PROGRESS_TOKENS)
    history.note(BROKEN, continues=True, num_new_tokens=1, waited_for_client=True)
    assert context(history).num_continuations == 0


def test_errors_that_repeat_are_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.ENGINE_ERROR, INTERNAL), continues=False, num_new_tokens=0)
    history.note(BROKEN, continues=False, num_new_tokens=0)
    assert context(history).num_repeating_errors == 1


def test_only_the_last_refusal_says_whether_the_replica_supports_the_request() -> None:
    history = AttemptHistory()
    unsupported = AttemptEnd(
        Outcome.ENGINE_REFUSED, Problem(400, "It drafts.", "unsupported_parameter", "min_p")
    )
    history.note(unsupported, continues=False, num_new_tokens=0)
    assert context(history).is_unsupported
    history.note(BROKEN, continues=False, num_new_tokens=0)
    assert not context(history).is_unsupported


def test_only_the_last_refusal_says_whether_the_replica_is_busy() -> None:
    history = AttemptHistory()
    busy = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "Slow down.", "rate_limited"))
    history.note(busy, continues=False, num_new_tokens=0)
    assert context(history).is_busy
    history.note(BROKEN, continues=False, num_new_tokens=0)
    assert not context(history).is_busy


def test_before_the_first_attempt_nothing_is_counted() -> None:
    assert context(AttemptHistory()) == FailureContext(
        outcome=Outcome.BROKEN,
        is_unsupported=False,
        is_busy=False,
        has_client_bytes=False,
        can_continue=False,
        num_attempts=0,
        num_continuations=0,
        num_continuations_in_all=0,
        num_repeating_errors=0,
        waited_s=0.0,
        has_other_replica=False,
        num_retries_left=0,
        num_continuations_left=0,
    )


def test_continuations_that_were_not_sent_are_not_counted() -> None:
    history = AttemptHistory()
    for outcome in (Outcome.NOT_SENT, Outcome.UNREACHABLE):
        history.note(AttemptEnd(outcome), continues=True, num_new_tokens=0)
    history.note(BROKEN, continues=True, num_new_tokens=0)
    counts = context(history)
    assert (counts.num_continuations, counts.num_continuations_in_all) == (1, 1)


def test_the_facts_of_now_are_passed_on() -> None:
    history = AttemptHistory()
    history.note(BROKEN, continues=False, num_new_tokens=0)
    counts = history.failure_context(
        Outcome.TIMED_OUT,
        has_client_bytes=True,
        can_continue=True,
        waited_s=1.5,
        has_other_replica=True,
        num_retries_left=2,
        num_continuations_left=3,
    )
    assert (counts.outcome, counts.waited_s, counts.num_attempts) == (Outcome.TIMED_OUT, 1.5, 1)
    assert (counts.has_client_bytes, counts.can_continue, counts.has_other_replica) == (True,) * 3
    assert (counts.num_retries_left, counts.num_continuations_left) == (2, 3)

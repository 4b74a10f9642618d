"""Counts of one request's attempts."""

from __future__ import annotations

from paceline.runtime.gateway.http.errors import INTERNAL, Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.attempt_history import AttemptHistory

BROKEN = AttemptEnd(Outcome.BROKEN)


def test_attempts_that_reach_no_engine_are_not_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.UNREACHABLE), continues=False)
    history.note(BROKEN, continues=False)
    assert history.num_attempts == 1


def test_every_continuation_counts_however_many_tokens_it_added() -> None:
    history = AttemptHistory()
    for _ in range(4):
        history.note(BROKEN, continues=True)
    assert (history.num_continuations, history.num_attempts) == (4, 0)


def test_the_last_refusal_is_kept_for_a_client_that_gets_no_other_answer() -> None:
    history = AttemptHistory()
    refused = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "No.", "invalid_value"))
    busy = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "Slow down.", "rate_limited"))
    for end in (refused, busy, BROKEN):
        history.note(end, continues=False)
    assert history.refusal is refused
    assert history.num_refusals == 1


def test_errors_that_repeat_are_counted() -> None:
    history = AttemptHistory()
    history.note(AttemptEnd(Outcome.ENGINE_ERROR, INTERNAL), continues=False)
    history.note(BROKEN, continues=False)
    assert history.num_repeating_errors == 1


def test_continuations_that_were_not_sent_are_not_counted() -> None:
    history = AttemptHistory()
    for outcome in (Outcome.NOT_SENT, Outcome.UNREACHABLE):
        history.note(AttemptEnd(outcome), continues=True)
    history.note(BROKEN, continues=True)
    assert history.num_continuations == 1

"""How an attempt ended, and what the client reads about it."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.http.errors import INTERNAL, Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy import attempt_end
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED, AttemptEnd
from paceline.runtime.gateway.proxy.upstream import Broken, NotSent, Unreachable
from paceline.runtime.gateway.routing.verdicts import Suspicion
from paceline.runtime.gateway.settings import GatewaySettings


def failed(error: Broken | NotSent | Unreachable) -> AttemptEnd:
    return attempt_end.exchange_failed(error, GatewaySettings(retry_after_s=7))


@pytest.mark.parametrize(
    ("end", "outcome", "status", "code", "retry_after_s", "should_retry"),
    [
        (attempt_end.timed_out(1.5), Outcome.TIMED_OUT, 504, "engine_timeout", None, True),
        (attempt_end.too_slow(1.5), Outcome.TOO_SLOW, 504, "answer_timeout", None, False),
        (attempt_end.too_large(99), Outcome.TOO_LARGE, 400, "answer_too_large", None, True),
        (failed(Unreachable("why")), Outcome.UNREACHABLE, 503, "engine_unavailable", 7, True),
        (failed(NotSent("why")), Outcome.NOT_SENT, 503, "engine_unavailable", 7, True),
        (failed(Broken("why")), Outcome.BROKEN, 503, "engine_unavailable", 7, True),
    ],
)
def test_every_failure_has_its_problem(
    end: AttemptEnd,
    outcome: Outcome,
    status: int,
    code: str,
    retry_after_s: int | None,
    should_retry: bool,
) -> None:
    problem = end.problem
    assert problem is not None
    assert end.outcome is outcome
    assert (problem.status, problem.code) == (status, code)
    assert (problem.retry_after_s, problem.should_retry) == (retry_after_s, should_retry)


def test_limits_are_named_to_the_client_and_in_the_log() -> None:
    for end in (attempt_end.timed_out(1.5), attempt_end.too_slow(1.5)):
        assert end.problem is not None
        assert "1.5 s" in end.problem.message
        assert "1.5 s" in end.detail
    too_large = attempt_end.too_large(99)
    assert too_large.problem is not None
    assert "99 bytes" in too_large.problem.message
    assert too_large.detail == "longer than 99 bytes"
    assert failed(Broken("why")).detail == "why"


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (None, (False, False, False)),
        (INTERNAL, (True, False, False)),
        (Problem(503, "x", "engine_unavailable"), (False, False, False)),
        (Problem(504, "x", "engine_timeout"), (False, False, False)),
        (Problem(400, "x", "unsupported_parameter"), (False, True, False)),
        (Problem(400, "x", "invalid_value"), (False, False, False)),
        (Problem(429, "x", "rate_limited"), (False, False, True)),
    ],
)
def test_what_another_replica_may_do_follows_from_the_problem(
    problem: Problem | None, expected: tuple[bool, bool, bool]
) -> None:
    end = AttemptEnd(Outcome.ENGINE_REFUSED, problem)
    assert (end.repeats, end.is_unsupported, end.is_busy) == expected


def test_a_complete_answer_has_no_problem() -> None:
    assert AttemptEnd(Outcome.COMPLETED, None, "") == COMPLETED


TOO_LONG = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "x", "context_length_exceeded"))
UNSUPPORTED = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "x", "unsupported_parameter"))
BUSY = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "x", "rate_limited"))
REFUSED = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "x", "invalid_value"))


@pytest.mark.parametrize(
    ("end", "suspicion", "is_rejection"),
    [
        (COMPLETED, None, False),
        (AttemptEnd(Outcome.UNREACHABLE), None, False),
        (AttemptEnd(Outcome.NOT_SENT), None, False),
        (AttemptEnd(Outcome.CLIENT_GONE), None, False),
        (AttemptEnd(Outcome.BROKEN), Suspicion.ERROR, False),
        (AttemptEnd(Outcome.BROKEN, is_death=True), None, False),
        (AttemptEnd(Outcome.TIMED_OUT), Suspicion.ERROR, False),
        (AttemptEnd(Outcome.TIMED_OUT, is_death=True), None, False),
        (AttemptEnd(Outcome.ENGINE_ERROR, INTERNAL), Suspicion.ERROR, True),
        (AttemptEnd(Outcome.ENGINE_ERROR, INTERNAL, is_death=True), None, False),
        (AttemptEnd(Outcome.MISDIRECTED), Suspicion.ERROR, True),
        (AttemptEnd(Outcome.INTERNAL_ERROR), Suspicion.ERROR, False),
        (AttemptEnd(Outcome.NOT_CONTINUED), None, True),
        (REFUSED, Suspicion.REFUSAL, True),
        (BUSY, Suspicion.OVERLOAD, False),
        (TOO_LONG, None, True),
        (UNSUPPORTED, None, False),
    ],
)
def test_what_an_end_says_about_its_replica(
    end: AttemptEnd, suspicion: Suspicion | None, is_rejection: bool
) -> None:
    assert (end.suspicion, end.is_rejection) == (suspicion, is_rejection)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (AttemptEnd(Outcome.UNREACHABLE), False),
        (AttemptEnd(Outcome.NOT_SENT), False),
        (AttemptEnd(Outcome.BROKEN, is_death=True), False),
        (AttemptEnd(Outcome.BROKEN), True),
        (AttemptEnd(Outcome.NOT_CONTINUED), True),
        (REFUSED, True),
    ],
)
def test_a_request_may_have_caused_the_failure_of_a_replica_that_lives(
    end: AttemptEnd, expected: bool
) -> None:
    assert end.may_be_own_fault is expected

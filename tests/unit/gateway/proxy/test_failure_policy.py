"""The step that follows a failed attempt."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, replace

import pytest

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.attempt_history import AttemptHistory
from paceline.runtime.gateway.proxy.failure_policy import (
    Decision,
    FailureContext,
    RetryReason,
    Step,
    next_step,
)
from paceline.runtime.gateway.settings import FailureSettings

SETTINGS = FailureSettings(
    max_attempts=3, max_continuations=2, max_replica_deaths=2, replica_wait_s=10
)
FAILURES = (
    Outcome.UNREACHABLE,
    Outcome.NOT_SENT,
    Outcome.BROKEN,
    Outcome.TIMED_OUT,
    Outcome.ENGINE_ERROR,
    Outcome.MISDIRECTED,
    Outcome.NOT_CONTINUED,
    Outcome.UNAVAILABLE,
    Outcome.INTERNAL_ERROR,
)


@dataclass(frozen=True)
class Case:
    """The facts of a `FailureContext`, side by side."""

    outcome: Outcome
    has_client_bytes: bool
    can_continue: bool
    num_attempts: int
    num_continuations: int
    num_deaths: int
    num_repeating_errors: int
    num_refusals: int
    wants_opinion: bool
    waited_s: float
    has_other_replica: bool
    has_failed_replica: bool
    num_retries_left: int
    num_continuations_left: int
    problem: Problem | None = None
    is_death: bool = False


def decide(case: Case, settings: FailureSettings = SETTINGS) -> Decision:
    facts = asdict(case)
    history = AttemptHistory()
    for name in ("num_attempts", "num_continuations", "num_repeating_errors", "num_refusals"):
        setattr(history, name, facts.pop(name))
    del facts["problem"]
    end = AttemptEnd(facts.pop("outcome"), case.problem, is_death=facts.pop("is_death"))
    return next_step(FailureContext(end=end, history=history, **facts), settings)


FAILS_AGAIN = Problem(500, "x", "engine_error")
UNSUPPORTED = Problem(400, "x", "unsupported_parameter")
BUSY = Problem(429, "x", "rate_limited")

FIRST = Case(
    outcome=Outcome.UNREACHABLE,
    has_client_bytes=False,
    can_continue=False,
    num_attempts=1,
    num_continuations=0,
    num_deaths=0,
    num_repeating_errors=0,
    num_refusals=0,
    wants_opinion=False,
    waited_s=0.0,
    has_other_replica=True,
    has_failed_replica=False,
    num_retries_left=1,
    num_continuations_left=1,
)
"""A first attempt that failed before its first byte, with everything left."""
BEGUN = replace(FIRST, outcome=Outcome.BROKEN, has_client_bytes=True, can_continue=True)
"""A stream that broke off and can be continued."""


@pytest.mark.parametrize(
    ("outcome", "step", "reason"),
    [
        (Outcome.COMPLETED, Step.FINISHED, RetryReason.COMPLETED),
        (Outcome.ENGINE_REFUSED, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        (Outcome.CLIENT_GONE, Step.FINISHED, RetryReason.CLIENT_GONE),
        (Outcome.SHUT_DOWN, Step.GIVE_UP, RetryReason.STOPPING),
        (Outcome.TOO_SLOW, Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
        (Outcome.TOO_LARGE, Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
        (Outcome.REFUSED, Step.GIVE_UP, RetryReason.OWN_FAULT),
        *((outcome, Step.RETRY_ELSEWHERE, RetryReason.REPLICA_FAILED) for outcome in FAILURES),
    ],
)
def test_every_outcome_before_the_first_byte(
    outcome: Outcome, step: Step, reason: RetryReason
) -> None:
    assert decide(replace(FIRST, outcome=outcome)) == Decision(step, reason)


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({"num_attempts": 2}, Step.RETRY_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"num_attempts": 3}, Step.GIVE_UP, RetryReason.NO_ATTEMPT_LEFT),
        ({"num_retries_left": 0}, Step.GIVE_UP, RetryReason.NO_BUDGET_LEFT),
        ({"num_continuations_left": 0}, Step.RETRY_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"has_other_replica": False}, Step.WAIT_FOR_REPLICA, RetryReason.NO_REPLICA),
        (
            {"has_other_replica": False, "waited_s": 10.0},
            Step.GIVE_UP,
            RetryReason.NO_REPLICA_CAME,
        ),
        (
            {"outcome": Outcome.ENGINE_ERROR, "num_repeating_errors": 1},
            Step.RETRY_ELSEWHERE,
            RetryReason.REPLICA_FAILED,
        ),
        (
            {
                "outcome": Outcome.ENGINE_ERROR,
                "num_repeating_errors": 1,
                "problem": FAILS_AGAIN,
                "has_other_replica": False,
            },
            Step.GIVE_UP,
            RetryReason.NO_REPLICA,
        ),
        (
            {"outcome": Outcome.TIMED_OUT, "has_other_replica": False},
            Step.GIVE_UP,
            RetryReason.NO_REPLICA,
        ),
        (
            {"outcome": Outcome.TIMED_OUT, "is_death": True, "has_other_replica": False},
            Step.WAIT_FOR_REPLICA,
            RetryReason.NO_REPLICA,
        ),
        (
            {"outcome": Outcome.ENGINE_ERROR, "num_repeating_errors": 2, "num_attempts": 2},
            Step.GIVE_UP,
            RetryReason.FAILS_AGAIN,
        ),
        (
            {
                "outcome": Outcome.UNAVAILABLE,
                "num_attempts": 0,
                "num_retries_left": 0,
                "has_other_replica": False,
            },
            Step.WAIT_FOR_REPLICA,
            RetryReason.NO_REPLICA,
        ),
    ],
)
def test_before_the_first_byte(changes: dict[str, object], step: Step, reason: RetryReason) -> None:
    end = replace(FIRST, **changes)  # type: ignore[arg-type]
    assert decide(end) == Decision(step, reason)


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({}, Step.CONTINUE_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"can_continue": False}, Step.GIVE_UP, RetryReason.NOT_CONTINUABLE),
        ({"num_attempts": 3}, Step.CONTINUE_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"num_retries_left": 0}, Step.CONTINUE_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"num_continuations": 1}, Step.CONTINUE_ELSEWHERE, RetryReason.REPLICA_FAILED),
        ({"num_continuations": 2}, Step.GIVE_UP, RetryReason.NO_ATTEMPT_LEFT),
        ({"num_continuations_left": 0}, Step.GIVE_UP, RetryReason.NO_BUDGET_LEFT),
        ({"has_other_replica": False}, Step.WAIT_FOR_REPLICA, RetryReason.NO_REPLICA),
        (
            {"outcome": Outcome.ENGINE_ERROR, "num_repeating_errors": 2},
            Step.GIVE_UP,
            RetryReason.FAILS_AGAIN,
        ),
        ({"outcome": Outcome.CLIENT_GONE}, Step.FINISHED, RetryReason.CLIENT_GONE),
        (
            {"outcome": Outcome.ENGINE_REFUSED, "num_refusals": 1},
            Step.CONTINUE_ELSEWHERE,
            RetryReason.REPLICA_FAILED,
        ),
        (
            {"outcome": Outcome.ENGINE_REFUSED, "num_refusals": 2},
            Step.GIVE_UP,
            RetryReason.CONTINUATION_REFUSED,
        ),
        ({"outcome": Outcome.SHUT_DOWN}, Step.GIVE_UP, RetryReason.STOPPING),
        ({"outcome": Outcome.INTERNAL_ERROR}, Step.GIVE_UP, RetryReason.OWN_FAULT),
        (
            {"outcome": Outcome.NOT_CONTINUED},
            Step.CONTINUE_ELSEWHERE,
            RetryReason.REPLICA_FAILED,
        ),
        (
            {
                "outcome": Outcome.NOT_CONTINUED,
                "has_other_replica": False,
            },
            Step.GIVE_UP,
            RetryReason.NOT_CONTINUABLE,
        ),
        ({"outcome": Outcome.TIMED_OUT}, Step.CONTINUE_ELSEWHERE, RetryReason.REPLICA_FAILED),
        (
            {"outcome": Outcome.TIMED_OUT, "has_other_replica": False},
            Step.WAIT_FOR_REPLICA,
            RetryReason.NO_REPLICA,
        ),
        (
            {"outcome": Outcome.TIMED_OUT, "has_other_replica": False, "waited_s": 1e9},
            Step.GIVE_UP,
            RetryReason.NO_REPLICA_CAME,
        ),
        (
            {
                "outcome": Outcome.ENGINE_ERROR,
                "num_repeating_errors": 1,
                "problem": FAILS_AGAIN,
                "has_other_replica": False,
            },
            Step.GIVE_UP,
            RetryReason.NO_REPLICA,
        ),
    ],
)
def test_after_the_first_byte(changes: dict[str, object], step: Step, reason: RetryReason) -> None:
    end = replace(BEGUN, **changes)  # type: ignore[arg-type]
    assert decide(end) == Decision(step, reason)


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({}, Step.RETRY_ELSEWHERE, RetryReason.UNSUPPORTED_THERE),
        ({"has_other_replica": False}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        ({"num_attempts": 3}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        ({"num_retries_left": 0}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        ({"has_client_bytes": True}, Step.GIVE_UP, RetryReason.NOT_CONTINUABLE),
    ],
)
def test_what_a_replica_does_not_support_is_tried_on_another_one(
    changes: dict[str, object], step: Step, reason: RetryReason
) -> None:
    refused = replace(FIRST, outcome=Outcome.ENGINE_REFUSED, problem=UNSUPPORTED)
    end = replace(refused, **changes)  # type: ignore[arg-type]
    assert decide(end) == Decision(step, reason)


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({}, Step.RETRY_ELSEWHERE, RetryReason.BUSY_THERE),
        ({"has_other_replica": False}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        ({"num_attempts": 3}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        ({"num_retries_left": 0}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        (
            {"has_client_bytes": True, "can_continue": True},
            Step.CONTINUE_ELSEWHERE,
            RetryReason.REPLICA_FAILED,
        ),
        (
            {"has_client_bytes": True, "can_continue": True, "has_other_replica": False},
            Step.WAIT_FOR_REPLICA,
            RetryReason.NO_REPLICA,
        ),
        ({"has_client_bytes": True}, Step.GIVE_UP, RetryReason.NOT_CONTINUABLE),
    ],
)
def test_what_a_busy_replica_refuses_is_tried_on_another_one(
    changes: dict[str, object], step: Step, reason: RetryReason
) -> None:
    refused = replace(FIRST, outcome=Outcome.ENGINE_REFUSED, problem=BUSY)
    end = replace(refused, **changes)  # type: ignore[arg-type]
    assert decide(end) == Decision(step, reason)


def test_no_case_sends_bytes_twice_or_never_ends() -> None:
    """All combinations of the values that matter."""
    flag = (False, True)
    problems = (None, UNSUPPORTED, BUSY, FAILS_AGAIN)
    cases = itertools.product(
        Outcome, problems, flag, flag, (0, 1, 2, 3, 4), flag, flag, (0, 1), (0.0, 10.0)
    )
    for outcome, problem, has_bytes, can_continue, num, has_other, wants, left, waited_s in cases:
        end = Case(
            outcome=outcome,
            problem=problem,
            is_death=wants,
            has_client_bytes=has_bytes,
            can_continue=can_continue,
            num_attempts=num,
            num_continuations=num,
            num_deaths=0,
            num_repeating_errors=0,
            num_refusals=num,
            wants_opinion=wants,
            waited_s=waited_s,
            has_other_replica=has_other,
            has_failed_replica=has_other,
            num_retries_left=left,
            num_continuations_left=left,
        )
        step = decide(end).step
        if has_bytes:
            assert step is not Step.RETRY_ELSEWHERE
        else:
            assert step is not Step.CONTINUE_ELSEWHERE
        if step is Step.CONTINUE_ELSEWHERE:
            assert can_continue
        if has_bytes and not can_continue:
            assert step in (Step.FINISHED, Step.GIVE_UP)
        if num >= 4:
            assert step in (Step.FINISHED, Step.GIVE_UP, Step.REFUSE)
        if step is Step.REFUSE:
            assert num
            assert not has_bytes
        if waited_s == 10.0:
            assert step is not Step.WAIT_FOR_REPLICA


REFUSED = replace(FIRST, outcome=Outcome.ENGINE_REFUSED, num_refusals=1)
"""A first attempt that ended with a 4xx."""


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({"wants_opinion": True}, Step.RETRY_ELSEWHERE, RetryReason.SECOND_OPINION),
        ({}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
        (
            {"wants_opinion": True, "has_other_replica": False},
            Step.FINISHED,
            RetryReason.ENGINE_REFUSED,
        ),
        (
            {"wants_opinion": True, "num_retries_left": 0},
            Step.FINISHED,
            RetryReason.ENGINE_REFUSED,
        ),
        ({"wants_opinion": True, "num_attempts": 3}, Step.FINISHED, RetryReason.ENGINE_REFUSED),
    ],
)
def test_a_refusal_is_checked_by_one_other_replica(
    changes: dict[str, object], step: Step, reason: RetryReason
) -> None:
    end = replace(REFUSED, **changes)  # type: ignore[arg-type]
    assert decide(end) == Decision(step, reason)


@pytest.mark.parametrize("outcome", FAILURES)
@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, None),
        ({"has_other_replica": False}, Step.REFUSE),
        ({"num_retries_left": 0}, Step.REFUSE),
        ({"num_attempts": 3}, Step.REFUSE),
        ({"num_deaths": 2}, Step.REFUSE),
    ],
)
def test_a_refusal_that_no_other_replica_could_check_reaches_the_client(
    outcome: Outcome, changes: dict[str, object], step: Step | None
) -> None:
    """It does not wait for a replica, and the client does not get the failure of the second. One
    that did not answer in time is not followed by a third."""
    end = replace(FIRST, outcome=outcome, num_refusals=1, num_attempts=2)
    if step is None:
        step = Step.REFUSE if outcome is Outcome.TIMED_OUT else Step.RETRY_ELSEWHERE
    assert decide(replace(end, **changes)).step is step  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "step"),
    [
        (Outcome.TOO_SLOW, Step.REFUSE),
        (Outcome.TIMED_OUT, Step.REFUSE),
        (Outcome.TOO_LARGE, Step.GIVE_UP),
        (Outcome.COMPLETED, Step.FINISHED),
        (Outcome.CLIENT_GONE, Step.FINISHED),
        (Outcome.SHUT_DOWN, Step.GIVE_UP),
    ],
)
def test_an_opinion_replaces_the_refusal_only_by_an_answer(outcome: Outcome, step: Step) -> None:
    end = replace(FIRST, outcome=outcome, num_refusals=1, num_attempts=2)
    assert decide(end).step is step
    begun = replace(end, has_client_bytes=True, can_continue=True)
    assert decide(begun).step is not Step.REFUSE


@pytest.mark.parametrize("outcome", [Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.ENGINE_ERROR])
@pytest.mark.parametrize(("num_deaths", "step"), [(1, False), (2, True), (3, True)])
def test_a_request_that_ends_engines_ends_two_however_many_tokens_came_between(
    outcome: Outcome, num_deaths: int, step: bool
) -> None:
    for end in (FIRST, BEGUN):
        died = replace(end, outcome=outcome, num_deaths=num_deaths)
        gave_up = decide(died) == Decision(Step.GIVE_UP, RetryReason.ENDS_REPLICAS)
        assert gave_up is step


def test_a_connection_that_is_cut_while_its_replica_lives_is_no_death() -> None:
    settings = FailureSettings()
    for num in range(settings.max_continuations):
        cut = replace(BEGUN, num_continuations=num)
        assert decide(cut, settings).step is Step.CONTINUE_ELSEWHERE


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.ENGINE_REFUSED, RetryReason.CONTINUATION_REFUSED),
        (Outcome.ENGINE_ERROR, RetryReason.NO_REPLICA),
        (Outcome.MISDIRECTED, RetryReason.NO_REPLICA),
        (Outcome.NOT_CONTINUED, RetryReason.NOT_CONTINUABLE),
    ],
)
def test_a_stream_that_one_replica_rejects_returns_to_one_that_only_cut_it(
    outcome: Outcome, reason: RetryReason
) -> None:
    rejected = replace(BEGUN, outcome=outcome, problem=FAILS_AGAIN, has_other_replica=False)
    returning = replace(rejected, has_failed_replica=True)
    assert decide(returning).step is Step.WAIT_FOR_REPLICA
    assert decide(rejected) == Decision(Step.GIVE_UP, reason)

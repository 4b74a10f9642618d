"""`next_step`: decide what follows a failed attempt of a request.

One pure function from values to the next step. `request_runner` carries the step out and spends the
budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline.gateway.outcomes import Outcome
from paceline.gateway.settings.failures import IN_ALL_FACTOR, FailureSettings


class Step(StrEnum):
    FINISHED = "finished"
    """The client has its answer, gets the engine's own refusal, or is gone."""
    RETRY_ELSEWHERE = "retry_elsewhere"
    """Make the request again, on a replica that has not failed it. Spends a retry."""
    CONTINUE_ELSEWHERE = "continue_elsewhere"
    """Continue the stream on another replica, after the last token sent. Spends a continuation."""
    WAIT_FOR_REPLICA = "wait_for_replica"
    """No replica can take the request now. Wait for one, those that failed included; then retry or
    continue, which spends the budget then. The first attempt of a request is free."""
    GIVE_UP = "give_up"
    """Send the client the problem."""


class RetryReason(StrEnum):
    """Why this step; for the log and for tests."""

    COMPLETED = "completed"
    ENGINE_REFUSED = "engine_refused"
    UNSUPPORTED_THERE = "unsupported_there"
    BUSY_THERE = "busy_there"
    CONTINUATION_REFUSED = "continuation_refused"
    CLIENT_GONE = "client_gone"
    STOPPING = "stopping"
    OWN_FAULT = "own_fault"
    REQUEST_TOO_LARGE = "request_too_large"
    REPLICA_FAILED = "replica_failed"
    NO_REPLICA = "no_replica"
    NOT_CONTINUABLE = "not_continuable"
    FAILS_AGAIN = "fails_again"
    NO_ATTEMPT_LEFT = "no_attempt_left"
    NO_BUDGET_LEFT = "no_budget_left"
    NO_REPLICA_CAME = "no_replica_came"


@dataclass(frozen=True, slots=True)
class Decision:
    step: Step
    reason: RetryReason


@dataclass(frozen=True, slots=True)
class FailureContext:
    """Everything that the next step depends on, as of the end of an attempt."""

    outcome: Outcome
    """How the attempt ended. Never the request's own deadline, which ends the request."""
    is_unsupported: bool
    """Whether it ended with a refusal that is due to how the replica is configured."""
    is_busy: bool
    """Whether it ended with a refusal that is due to the replica's load, a 429."""
    has_client_bytes: bool
    """Whether the client has received anything of the answer, from any attempt."""
    can_continue: bool
    """Whether what it has received can be continued token by token; meaningless before that."""
    num_attempts: int
    """Attempts so far that began the answer anew, this one included; those that did not reach an
    engine are left out."""
    num_continuations: int
    """Attempts that continued it, this one included, since the last one that added at least
    `PROGRESS_TOKENS` tokens; `MAX_WAITS` that mostly waited for the client are left out."""
    num_continuations_in_all: int
    """All attempts that continued it, this one included."""
    num_repeating_errors: int
    """Attempts, this one included, that ended with an error which the same request is likely to
    cause again: an engine's 500 after which the engine still serves."""
    waited_s: float
    """How long this request has waited for a replica so far, over all its waits."""
    has_other_replica: bool
    """Whether a replica that has not failed this request can take it now."""
    num_retries_left: int
    """In the budget of all requests."""
    num_continuations_left: int
    """In the budget of all streams that have begun."""


_ENDS = {
    Outcome.COMPLETED: Decision(Step.FINISHED, RetryReason.COMPLETED),
    Outcome.ENGINE_REFUSED: Decision(Step.FINISHED, RetryReason.ENGINE_REFUSED),
    Outcome.CLIENT_GONE: Decision(Step.FINISHED, RetryReason.CLIENT_GONE),
    Outcome.NOT_CONTINUED: Decision(Step.GIVE_UP, RetryReason.NOT_CONTINUABLE),
    Outcome.SHUT_DOWN: Decision(Step.GIVE_UP, RetryReason.STOPPING),
    Outcome.TOO_SLOW: Decision(Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
    Outcome.TOO_LARGE: Decision(Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
    Outcome.REFUSED: Decision(Step.GIVE_UP, RetryReason.OWN_FAULT),
    Outcome.INTERNAL_ERROR: Decision(Step.GIVE_UP, RetryReason.OWN_FAULT),
}
"""Outcomes that another replica would not change."""


def next_step(end: FailureContext, settings: FailureSettings) -> Decision:
    """The first of these rules that applies.

    1. Completed, refused by the engine with a 4xx, client gone: FINISHED. Gateway stopping or at
       fault itself, whole answer too slow or too large: GIVE_UP. A 4xx is never tried again, but a
       client that has bytes cannot be given it as its answer: GIVE_UP. The exception is a refusal
       that is due to how the replica is configured, or to its load: RETRY_ELSEWHERE while attempts,
       budget and another replica are left. A stream that has begun is continued after a refusal
       that is due to a replica's load.
    2. The client has bytes and they cannot be continued: GIVE_UP. A retry would send them twice.
    3. An error that repeats has occurred twice: GIVE_UP. The second engine shows that the request
       is the cause; a third would only repeat the work.
    4. No attempt of this kind, or no budget left: GIVE_UP.
    5. Another replica can take it: CONTINUE_ELSEWHERE if the client has bytes, else
       RETRY_ELSEWHERE.
    6. The attempt timed out before the client had bytes, or an error that repeats has occurred:
       GIVE_UP. The next replica would be the one that timed out or failed. A stream that has begun
       waits for it instead: a hung replica comes back, or is restarted.
    7. It has waited less than `replica_wait_s`: WAIT_FOR_REPLICA, else GIVE_UP.
    """
    is_refused = end.outcome is Outcome.ENGINE_REFUSED
    is_busy_continuation = is_refused and end.is_busy and end.has_client_bytes
    if is_refused and end.has_client_bytes and not is_busy_continuation:
        return _give_up(RetryReason.CONTINUATION_REFUSED)
    if end.is_unsupported and _may_retry(end, settings):
        return Decision(Step.RETRY_ELSEWHERE, RetryReason.UNSUPPORTED_THERE)
    if is_refused and end.is_busy and _may_retry(end, settings):
        return Decision(Step.RETRY_ELSEWHERE, RetryReason.BUSY_THERE)
    decided = _ENDS.get(end.outcome)
    if decided is not None and not is_busy_continuation:
        return decided
    if end.has_client_bytes and not end.can_continue:
        return _give_up(RetryReason.NOT_CONTINUABLE)
    if end.num_repeating_errors >= 2:
        return _give_up(RetryReason.FAILS_AGAIN)
    if end.has_client_bytes:
        most = settings.max_continuations
        has_attempt = end.num_continuations < most
        has_attempt = has_attempt and end.num_continuations_in_all < IN_ALL_FACTOR * most
        num_left, step = end.num_continuations_left, Step.CONTINUE_ELSEWHERE
    else:
        has_attempt = end.num_attempts < settings.max_attempts
        num_left, step = end.num_retries_left, Step.RETRY_ELSEWHERE
    if not has_attempt:
        return _give_up(RetryReason.NO_ATTEMPT_LEFT)
    if num_left < 1 and end.num_attempts:
        return _give_up(RetryReason.NO_BUDGET_LEFT)
    if end.has_other_replica:
        return Decision(step, RetryReason.REPLICA_FAILED)
    timed_out_unseen = end.outcome is Outcome.TIMED_OUT and not end.has_client_bytes
    if timed_out_unseen or end.num_repeating_errors:
        return _give_up(RetryReason.NO_REPLICA)
    if end.waited_s < settings.replica_wait_s:
        return Decision(Step.WAIT_FOR_REPLICA, RetryReason.NO_REPLICA)
    return _give_up(RetryReason.NO_REPLICA_CAME)


def _may_retry(end: FailureContext, settings: FailureSettings) -> bool:
    has_attempt = end.num_attempts < settings.max_attempts and end.num_retries_left >= 1
    return has_attempt and end.has_other_replica and not end.has_client_bytes


def _give_up(reason: RetryReason) -> Decision:
    return Decision(Step.GIVE_UP, reason)

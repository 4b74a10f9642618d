"""`next_step`: decide what follows a failed attempt of a request.

One pure function from values to the next step. `request_runner` carries the step out and spends the
budgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.attempt_history import AttemptHistory
from paceline.runtime.gateway.settings.failures import FailureSettings


class Step(StrEnum):
    FINISHED = "finished"
    """The client has its answer, gets the engine's own refusal, or is gone."""
    REFUSE = "refuse"
    """Send the client the refusal with which an earlier attempt ended. Other replicas were asked
    and did not answer."""
    RETRY_ELSEWHERE = "retry_elsewhere"
    """Make the request again, on a replica that has not failed it. Spends a retry."""
    CONTINUE_ELSEWHERE = "continue_elsewhere"
    """Continue the stream on another replica, after the last token sent. Spends a continuation."""
    WAIT_FOR_REPLICA = "wait_for_replica"
    """No replica can take the request now. Wait for one, those that failed included; then retry or
    continue, which spends the budget then. The first attempt of a request is free."""
    GIVE_UP = "give_up"
    """Send the client the problem."""


LAST_STEPS = (Step.FINISHED, Step.REFUSE, Step.GIVE_UP)
"""Those after which there is no further attempt."""


class RetryReason(StrEnum):
    """Why this step; for the log and for tests."""

    COMPLETED = "completed"
    ENGINE_REFUSED = "engine_refused"
    UNSUPPORTED_THERE = "unsupported_there"
    BUSY_THERE = "busy_there"
    SECOND_OPINION = "second_opinion"
    NO_SECOND_OPINION = "no_second_opinion"
    CONTINUATION_REFUSED = "continuation_refused"
    ENDS_REPLICAS = "ends_replicas"
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

    end: AttemptEnd
    """How the attempt ended. Never the request's own deadline, which ends the request."""
    history: AttemptHistory
    """All attempts so far, this one included."""
    has_client_bytes: bool
    """Whether the client has received anything of the answer, from any attempt."""
    can_continue: bool
    """Whether what it has received can be continued token by token; meaningless before that."""
    num_deaths: int
    """Attempts, this one included, whose replica ended or hung, at once or a moment later."""
    wants_opinion: bool
    """Whether this is the first refusal, and another replica should be asked before the client gets
    it."""
    waited_s: float
    """How long this request has waited for a replica so far, over all its waits."""
    has_other_replica: bool
    """Whether a replica that has not failed this request can take it now."""
    has_failed_replica: bool
    """Whether one that has failed it, and did not reject it, can."""
    num_retries_left: int
    """In the budget of all requests."""
    num_continuations_left: int
    """In the budget of all streams that have begun."""


_ENDS = {
    Outcome.COMPLETED: Decision(Step.FINISHED, RetryReason.COMPLETED),
    Outcome.CLIENT_GONE: Decision(Step.FINISHED, RetryReason.CLIENT_GONE),
    Outcome.SHUT_DOWN: Decision(Step.GIVE_UP, RetryReason.STOPPING),
    Outcome.TOO_SLOW: Decision(Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
    Outcome.TOO_LARGE: Decision(Step.GIVE_UP, RetryReason.REQUEST_TOO_LARGE),
    Outcome.REFUSED: Decision(Step.GIVE_UP, RetryReason.OWN_FAULT),
}
"""Outcomes that another replica would not change."""
_NO_OPINION_NEEDED = (
    Outcome.COMPLETED, Outcome.CLIENT_GONE, Outcome.SHUT_DOWN, Outcome.REFUSED, Outcome.TOO_LARGE,
)  # fmt: skip
"""Outcomes that the client gets although another replica refused the request."""


def next_step(context: FailureContext, settings: FailureSettings) -> Decision:
    """The first of these rules that applies.

    1. Completed, client gone: FINISHED. Gateway stopping or full, whole answer too slow or too
       large: GIVE_UP.
    2. `max_replica_deaths` replicas have ended under the request: GIVE_UP. It is likely to be the
       cause, however many tokens came between.
    3. The replica refused the request with a 4xx, and the client has nothing: RETRY_ELSEWHERE while
       attempts, budget and another replica are left, if the refusal is due to how the replica is
       configured or to its load, or if a second opinion is wanted. Else FINISHED: the client gets
       the refusal.
    4. The client has bytes and they cannot be continued, or the gateway itself failed and may have
       lost count of them: GIVE_UP. A retry would send them twice.
    5. Two replicas refused to continue the stream, or an error that repeats has occurred twice:
       GIVE_UP. The second engine shows that the request is the cause; a third would only repeat
       the work.
    6. No attempt of this kind, or no budget left: GIVE_UP.
    7. Another replica can take it: CONTINUE_ELSEWHERE if the client has bytes, else
       RETRY_ELSEWHERE.
    8. Before the client had bytes, the attempt reached its time limit or the replica rejected the
       request, and the replica lives: GIVE_UP. The next replica would be the same one. A replica
       rejected a stream that has begun: WAIT_FOR_REPLICA if one that failed otherwise can take it
       now, else GIVE_UP.
    9. It has waited less than `replica_wait_s`: WAIT_FOR_REPLICA, else GIVE_UP.

    Where a request that one replica refused is given up after others have failed it, or another has
    not answered in time, the step is REFUSE.
    """
    decision = _decide(context, settings)
    outcome = context.end.outcome
    was_refused = context.history.num_refusals > 0 and outcome is not Outcome.ENGINE_REFUSED
    if not was_refused or context.has_client_bytes or outcome in _NO_OPINION_NEEDED:
        return decision
    if decision.step in (Step.GIVE_UP, Step.WAIT_FOR_REPLICA) or outcome is Outcome.TIMED_OUT:
        return Decision(Step.REFUSE, RetryReason.NO_SECOND_OPINION)
    return decision


def _decide(context: FailureContext, settings: FailureSettings) -> Decision:
    end, history, has_client_bytes = context.end, context.history, context.has_client_bytes
    decided = _ENDS.get(end.outcome)
    if decided is not None:
        return decided
    if context.num_deaths >= settings.max_replica_deaths:
        return _give_up(RetryReason.ENDS_REPLICAS)
    is_refused = end.outcome is Outcome.ENGINE_REFUSED
    if is_refused and not has_client_bytes:
        return _after_refusal(context, settings)
    if has_client_bytes and not context.can_continue:
        return _give_up(RetryReason.NOT_CONTINUABLE)
    if has_client_bytes and end.outcome is Outcome.INTERNAL_ERROR:
        return _give_up(RetryReason.OWN_FAULT)
    if is_refused and not end.is_busy and history.num_refusals >= 2:
        return _give_up(RetryReason.CONTINUATION_REFUSED)
    if history.num_repeating_errors >= 2:
        return _give_up(RetryReason.FAILS_AGAIN)
    if has_client_bytes:
        has_attempt = history.num_continuations < settings.max_continuations
        num_left, step = context.num_continuations_left, Step.CONTINUE_ELSEWHERE
    else:
        has_attempt = history.num_attempts < settings.max_attempts
        num_left, step = context.num_retries_left, Step.RETRY_ELSEWHERE
    if not has_attempt:
        return _give_up(RetryReason.NO_ATTEMPT_LEFT)
    if num_left < 1 and history.num_attempts:
        return _give_up(RetryReason.NO_BUDGET_LEFT)
    if context.has_other_replica:
        return Decision(step, RetryReason.REPLICA_FAILED)
    is_slow = end.outcome is Outcome.TIMED_OUT and not end.is_death
    if not has_client_bytes and (is_slow or end.is_rejection):
        return _give_up(RetryReason.NO_REPLICA)
    if end.is_rejection and not context.has_failed_replica:
        return _give_up(_REJECTED.get(end.outcome, RetryReason.NO_REPLICA))
    if context.waited_s < settings.replica_wait_s:
        return Decision(Step.WAIT_FOR_REPLICA, RetryReason.NO_REPLICA)
    return _give_up(RetryReason.NO_REPLICA_CAME)


_REJECTED = {
    Outcome.ENGINE_REFUSED: RetryReason.CONTINUATION_REFUSED,
    Outcome.NOT_CONTINUED: RetryReason.NOT_CONTINUABLE,
}


def _after_refusal(context: FailureContext, settings: FailureSettings) -> Decision:
    """After a 4xx of which the client has nothing."""
    end, history = context.end, context.history
    has_attempt = history.num_attempts < settings.max_attempts and context.num_retries_left >= 1
    if has_attempt and context.has_other_replica:
        if end.is_unsupported:
            return Decision(Step.RETRY_ELSEWHERE, RetryReason.UNSUPPORTED_THERE)
        if end.is_busy:
            return Decision(Step.RETRY_ELSEWHERE, RetryReason.BUSY_THERE)
        if context.wants_opinion:
            return Decision(Step.RETRY_ELSEWHERE, RetryReason.SECOND_OPINION)
    if end.is_busy and history.num_refusals:
        return Decision(Step.REFUSE, RetryReason.NO_SECOND_OPINION)
    return Decision(Step.FINISHED, RetryReason.ENGINE_REFUSED)


def _give_up(reason: RetryReason) -> Decision:
    return Decision(Step.GIVE_UP, reason)

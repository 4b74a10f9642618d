"""`AttemptEnd`: how an attempt ended, and what the client may read about it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.runtime.gateway.http.errors import INTERNAL, Problem, unavailable
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.engine_errors import UNSUPPORTED
from paceline.runtime.gateway.proxy.upstream import Broken, NotSent, Unreachable
from paceline.runtime.gateway.routing.verdicts import Suspicion
from paceline.runtime.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt ended."""

    outcome: Outcome
    problem: Problem | None = None
    """What the client reads unless another attempt answers it; None when the answer is complete."""
    detail: str = ""
    """For the log."""
    is_death: bool = False
    """Whether the replica ended during the attempt, or hung so that all its attempts were ended.
    The request may be the cause."""

    @property
    def repeats(self) -> bool:
        """Whether the same request is likely to fail like this on every replica: the replica
        failed it and lives."""
        return not self.is_death and self.problem is not None and self.problem.status == 500

    @property
    def is_unsupported(self) -> bool:
        """Whether the replica refused a field that a replica of another kind may serve."""
        return self.problem is not None and self.problem.code == UNSUPPORTED

    @property
    def is_busy(self) -> bool:
        """Whether the replica refused the request because of its load; an idle one may serve it."""
        return self.problem is not None and self.problem.status == 429

    @property
    def is_refusal(self) -> bool:
        """Whether the replica refused the request as such: every other one should, too."""
        if self.outcome is not Outcome.ENGINE_REFUSED:
            return False
        return not self.is_busy and not self.is_unsupported

    @property
    def is_rejection(self) -> bool:
        """Whether the replica would answer this request in the same way again: it is not sent
        there a second time."""
        rejected = (Outcome.MISDIRECTED, Outcome.NOT_CONTINUED)
        return self.repeats or self.is_refusal or self.outcome in rejected

    @property
    def may_be_own_fault(self) -> bool:
        """Whether the request may have caused this end: it reached a replica, which lives."""
        return not self.is_death and self.outcome not in (Outcome.UNREACHABLE, Outcome.NOT_SENT)

    @property
    def suspicion(self) -> Suspicion | None:
        """What the attempt says about its replica before it is known how others answer the same
        request; None when it is already clear, or says nothing."""
        if self.is_death or self.is_unsupported:
            return None
        if self.outcome is Outcome.ENGINE_REFUSED:
            if self.is_busy:
                return Suspicion.OVERLOAD
            # Another replica may have a longer context.
            is_too_long = self.problem is not None and self.problem.code == _TOO_LONG
            return None if is_too_long else Suspicion.REFUSAL
        return Suspicion.ERROR if self.outcome in _ERRORS else None


_TOO_LONG = "context_length_exceeded"
_ERRORS = (
    Outcome.ENGINE_ERROR, Outcome.MISDIRECTED, Outcome.BROKEN, Outcome.TIMED_OUT,
    Outcome.INTERNAL_ERROR,
)  # fmt: skip

COMPLETED = AttemptEnd(Outcome.COMPLETED)


def timed_out(limit_s: float) -> AttemptEnd:
    """The replica sent nothing within its time limit, or was found hung."""
    return AttemptEnd(
        Outcome.TIMED_OUT,
        Problem(504, f"The engine sent nothing for {limit_s:g} s.", "engine_timeout"),
        f"nothing for {limit_s:g} s, or for longer than its streams usually wait",
    )


_EXCHANGE_FAILED = {
    NotSent: (
        Outcome.NOT_SENT,
        "The gateway cannot open a connection to the engine at the moment.",
    ),
    Unreachable: (Outcome.UNREACHABLE, "The engine cannot be reached at the moment."),
    Broken: (Outcome.BROKEN, "The engine's answer ended before it was complete."),
}


def exchange_failed(error: NotSent | Unreachable | Broken, settings: GatewaySettings) -> AttemptEnd:
    """The request was not sent, or its answer ended too early."""
    outcome, message = _EXCHANGE_FAILED[type(error)]
    return AttemptEnd(outcome, unavailable(message, settings.retry_after_s), str(error))


def failed_here() -> AttemptEnd:
    """The gateway raised an exception, perhaps because of what the replica sent."""
    return AttemptEnd(Outcome.INTERNAL_ERROR, INTERNAL, "the gateway raised an exception")


def too_slow(limit_s: float) -> AttemptEnd:
    """An answer that is not streamed was not complete in time."""
    message = (
        f"The answer was not complete within {limit_s:g} s, the limit for answers that are not "
        "streamed. Send stream: true, or ask for fewer tokens."
    )
    problem = Problem(504, message, "answer_timeout", should_retry=False)
    return AttemptEnd(Outcome.TOO_SLOW, problem, f"not complete after {limit_s:g} s")


def too_large(max_bytes: int) -> AttemptEnd:
    """An answer that is not streamed was longer than the gateway holds."""
    message = (
        f"The answer is longer than {max_bytes} bytes, the limit for answers that are not "
        "streamed. Send stream: true, or ask for fewer choices, tokens or log-probabilities."
    )
    problem = Problem(400, message, "answer_too_large")
    return AttemptEnd(Outcome.TOO_LARGE, problem, f"longer than {max_bytes} bytes")

"""`AttemptHistory`: counts of one request's attempts, as `failure_policy` needs them."""

from __future__ import annotations

from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt_end import AttemptEnd
from paceline.gateway.proxy.failure_policy import FailureContext


class AttemptHistory:
    """The attempts of one request. The fields of `FailureContext` define the counts."""

    __slots__ = (
        "_end", "_num_continuations", "_num_refusals", "_num_repeating_errors",
        "num_attempts", "refusal",
    )  # fmt: skip

    _end: AttemptEnd
    """The last one."""

    def __init__(self) -> None:
        self.num_attempts = 0
        self._num_continuations = self._num_repeating_errors = self._num_refusals = 0
        self.refusal: AttemptEnd | None = None
        """The last attempt that ended with a 4xx which is not due to load."""

    def note(self, end: AttemptEnd, *, continues: bool) -> None:
        """Count one attempt.

        Args:
            end: How it ended. One that reached no engine is not counted: it cost no engine any
                work.
            continues: It continued a stream instead of beginning an answer.
        """
        if end.outcome not in (Outcome.UNREACHABLE, Outcome.NOT_SENT):
            self.num_attempts += not continues
            self._num_continuations += continues
        self._num_repeating_errors += end.repeats
        if end.is_refusal:
            self._num_refusals += 1
            self.refusal = end
        self._end = end

    def failure_context(
        self,
        *,
        has_client_bytes: bool,
        can_continue: bool,
        num_deaths: int,
        wants_opinion: bool,
        waited_s: float,
        has_other_replica: bool,
        has_failed_replica: bool,
        num_retries_left: int,
        num_continuations_left: int,
    ) -> FailureContext:
        """The counts together with the facts that hold now. Needs an attempt."""
        end = self._end
        return FailureContext(
            outcome=end.outcome,
            is_unsupported=end.is_unsupported,
            is_busy=end.is_busy,
            has_client_bytes=has_client_bytes,
            can_continue=can_continue,
            num_attempts=self.num_attempts,
            num_continuations=self._num_continuations,
            num_deaths=num_deaths,
            num_repeating_errors=self._num_repeating_errors,
            num_refusals=self._num_refusals,
            wants_opinion=wants_opinion,
            is_rejection=end.is_rejection,
            waited_s=waited_s,
            has_other_replica=has_other_replica,
            has_failed_replica=has_failed_replica,
            num_retries_left=num_retries_left,
            num_continuations_left=num_continuations_left,
        )

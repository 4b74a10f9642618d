"""`AttemptHistory`: counts of one request's attempts, as `failure_policy` needs them."""

from __future__ import annotations

from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.attempt_end import AttemptEnd
from paceline.gateway.proxy.failure_policy import FailureContext
from paceline.gateway.settings.failures import MAX_WAITS, PROGRESS_TOKENS


class AttemptHistory:
    """The attempts of one request. The fields of `FailureContext` define the counts."""

    __slots__ = (
        "_is_busy", "_is_unsupported", "_num_continuations", "_num_continuations_in_all",
        "_num_repeating_errors", "_num_waits", "num_attempts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.num_attempts = 0
        self._num_continuations = self._num_continuations_in_all = self._num_waits = 0
        self._num_repeating_errors = 0
        self._is_unsupported = self._is_busy = False

    def note(
        self,
        end: AttemptEnd,
        *,
        continues: bool,
        num_new_tokens: int,
        waited_for_client: bool = False,
    ) -> None:
        """Count one attempt.

        Args:
            end: How it ended. One that reached no engine is not counted: it cost no engine any
                work.
            continues: It continued a stream instead of beginning an answer.
            num_new_tokens: Tokens that the client has got from it.
            waited_for_client: The client read so slowly that the number of new tokens does not say
                how far the engine came.
        """
        if end.outcome not in (Outcome.UNREACHABLE, Outcome.NOT_SENT):
            if not continues:
                self.num_attempts += 1
            else:
                self._count_continuation(num_new_tokens, waited_for_client)
        self._num_repeating_errors += end.repeats
        self._is_unsupported = end.is_unsupported
        self._is_busy = end.is_busy

    def _count_continuation(self, num_new_tokens: int, waited_for_client: bool) -> None:
        self._num_continuations_in_all += 1
        if num_new_tokens >= PROGRESS_TOKENS:
            self._num_continuations = self._num_waits = 0
        elif waited_for_client and self._num_waits < MAX_WAITS:
            self._num_waits += 1
        else:
            self._num_continuations += 1

    def failure_context(
        self,
        outcome: Outcome,
        *,
        has_client_bytes: bool,
        can_continue: bool,
        waited_s: float,
        has_other_replica: bool,
        num_retries_left: int,
        num_continuations_left: int,
    ) -> FailureContext:
        """The counts together with the facts that hold now."""
        return FailureContext(
            outcome=outcome,
            is_unsupported=self._is_unsupported,
            is_busy=self._is_busy,
            has_client_bytes=has_client_bytes,
            can_continue=can_continue,
            num_attempts=self.num_attempts,
            num_continuations=self._num_continuations,
            num_continuations_in_all=self._num_continuations_in_all,
            num_repeating_errors=self._num_repeating_errors,
            waited_s=waited_s,
            has_other_replica=has_other_replica,
            num_retries_left=num_retries_left,
            num_continuations_left=num_continuations_left,
        )

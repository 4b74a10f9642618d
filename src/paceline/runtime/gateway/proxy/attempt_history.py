"""`AttemptHistory`: counts of one request's attempts, as `failure_policy` needs them."""

from __future__ import annotations

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd


class AttemptHistory:
    """The attempts of one request."""

    __slots__ = (
        "num_attempts", "num_continuations", "num_refusals", "num_repeating_errors", "refusal",
    )  # fmt: skip

    def __init__(self) -> None:
        self.num_attempts = 0
        """Those that began the answer anew. Attempts that reached no engine are left out, here and
        below: they cost no engine any work."""
        self.num_continuations = 0
        """Those that continued the stream."""
        self.num_repeating_errors = 0
        """Those that ended with an error which the same request is likely to cause again: an
        engine's 500 after which the engine still serves."""
        self.num_refusals = 0
        """Those that ended with a 4xx which is not due to load."""
        self.refusal: AttemptEnd | None = None
        """The last of these."""

    def note(self, end: AttemptEnd, *, continues: bool) -> None:
        """Count one attempt, which continued a stream or began an answer."""
        if end.outcome not in (Outcome.UNREACHABLE, Outcome.NOT_SENT):
            self.num_attempts += not continues
            self.num_continuations += continues
        self.num_repeating_errors += end.repeats
        if end.is_refusal:
            self.num_refusals += 1
            self.refusal = end

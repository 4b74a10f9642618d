"""`AttemptEnd`: how an attempt ended, and what the client may read about it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.gateway.http.errors import Problem, unavailable
from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.engine_errors import UNSUPPORTED
from paceline.gateway.settings import GatewaySettings


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How one attempt ended."""

    outcome: Outcome
    problem: Problem | None = None
    """What the client reads unless another attempt answers it; None when the answer is complete."""
    detail: str = ""
    """For the log."""

    @property
    def repeats(self) -> bool:
        """Whether the same request is likely to fail like this on every replica."""
        return self.problem is not None and self.problem.status == 500

    @property
    def is_unsupported(self) -> bool:
        """Whether the replica refused a field that a replica of another kind may serve."""
        return self.problem is not None and self.problem.code == UNSUPPORTED


COMPLETED = AttemptEnd(Outcome.COMPLETED)


def timed_out(limit_s: float) -> AttemptEnd:
    """The replica sent nothing within its time limit, or was found hung."""
    return AttemptEnd(
        Outcome.TIMED_OUT,
        Problem(504, f"The engine sent nothing for {limit_s:g} s.", "engine_timeout"),
        f"nothing for {limit_s:g} s, or for longer than its streams usually wait",
    )


def unreachable(detail: str, settings: GatewaySettings) -> AttemptEnd:
    """There was no connection to the replica."""
    problem = unavailable("The engine cannot be reached at the moment.", settings.retry_after_s)
    return AttemptEnd(Outcome.UNREACHABLE, problem, detail)


def broken(detail: str, settings: GatewaySettings) -> AttemptEnd:
    """The replica's answer ended before it was complete."""
    message = "The engine's answer ended before it was complete."
    return AttemptEnd(Outcome.BROKEN, unavailable(message, settings.retry_after_s), detail)

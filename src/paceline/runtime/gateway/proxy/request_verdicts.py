"""`RequestVerdicts`: what the attempts of one request say about the replicas that failed it.

The breakers get a verdict on each failed attempt, and `SecondOpinions` learns whose refusals others
share.
"""

from __future__ import annotations

import time

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.second_opinions import RefusalKind, SecondOpinions, refusal_kind
from paceline.runtime.gateway.routing.breaker import Ticket
from paceline.runtime.gateway.routing.verdicts import (
    FailedAttempt,
    Verdict,
    verdict_at_end,
    verdict_when_another_answers,
)


class RequestVerdicts:
    """Call `close` at the end of the request, whatever its end: each ticket gets exactly one
    verdict."""

    __slots__ = (
        "_failed",
        "_open",
        "_opinions",
        "_refusals",
        "tenant",
        "wants_opinion",
    )

    def __init__(self, opinions: SecondOpinions) -> None:
        self._opinions = opinions
        self._failed: list[FailedAttempt] = []
        """All of the request."""
        self._open: list[tuple[Ticket, FailedAttempt]] = []
        """Those without a verdict."""
        self._refusals: dict[str, RefusalKind] = {}
        """By replica."""
        self.wants_opinion = False
        """Whether to ask another replica before the client gets the refusal that has just come."""
        self.tenant: str | None = None
        """Whose request it is; None when keys are off."""

    def another_answers(self) -> None:
        """An attempt sent its first tokens."""
        waiting, self._open = self._open, []
        for ticket, attempt in waiting:
            verdict = verdict_when_another_answers(attempt)
            if verdict is None:
                self._open.append((ticket, attempt))
                ticket.replaced()
            else:
                ticket.decided(verdict, time.monotonic())

    def ended(self, ticket: Ticket, end: AttemptEnd, *, had_begun: bool) -> None:
        """An attempt ended. If it is a suspicion, its lease has suspended the ticket."""
        if end.outcome is Outcome.COMPLETED:
            self.close(is_served=True)
            for kind in self._refusals.values():
                self._opinions.note(kind, time.monotonic(), agrees=False)
        if end.suspicion is not None:
            attempt = FailedAttempt(ticket.name, end.suspicion, had_begun, end.repeats)
            is_known = any(one.replica == ticket.name for one in self._failed)
            self._failed.append(attempt)
            if is_known:  # one request counts once, however often the replica failed it
                ticket.decided(Verdict.NO_FAULT, time.monotonic())
            else:
                self._open.append((ticket, attempt))
        self.wants_opinion = False
        if end.is_refusal:
            kind = self._note_refusal(ticket.name, end)
            is_first = len(self._refusals) == 1
            self.wants_opinion = is_first and self._opinions.is_wanted(kind, time.monotonic())

    def close(self, *, is_served: bool) -> None:
        """The request ended. May be repeated."""
        waiting, self._open = self._open, []
        for ticket, attempt in waiting:
            verdict = verdict_at_end(attempt, self._failed, is_served=is_served)
            ticket.decided(verdict, time.monotonic())

    def _note_refusal(self, replica: str, end: AttemptEnd) -> RefusalKind:
        """Two replicas agree if they refuse with the same status, each in its own words."""
        assert end.problem is not None
        status, now_s = end.problem.status, time.monotonic()
        kind = refusal_kind(replica, self.tenant, status, end.problem.message)
        for name, other in self._refusals.items():
            if name != replica and other.status == status:
                self._opinions.note(other, now_s, agrees=True)
                self._opinions.note(kind, now_s, agrees=True)
        self._refusals[replica] = kind
        return kind

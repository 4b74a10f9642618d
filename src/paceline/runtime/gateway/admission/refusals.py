"""Reasons to refuse a request at admission, and the answer that the client gets for each."""

from __future__ import annotations

from enum import StrEnum

from paceline.runtime.gateway.http.errors import Problem


class RefusalReason(StrEnum):
    """Why a request was not admitted; also the metric label."""

    QUEUE_FULL = "queue_full"
    WAIT_TOO_LONG = "wait_too_long"
    """The forecast wait is longer than allowed."""
    DEADLINE = "deadline"
    """By the forecast the answer would not be complete before the request's own deadline."""
    WAITED_TOO_LONG = "waited_too_long"
    """The request waited as long as it may and got no slot: the forecast was too short."""
    NO_REPLICA = "no_replica"
    """There is no slot: no replica can take requests."""


_MESSAGES = {
    RefusalReason.QUEUE_FULL: "The server is overloaded: too many requests are waiting.",
    RefusalReason.WAIT_TOO_LONG: "The server is overloaded: this request would wait too long.",
    RefusalReason.DEADLINE: (
        "The server is overloaded: this request would not be complete before its deadline."
    ),
    RefusalReason.WAITED_TOO_LONG: "The server is overloaded: this request has waited too long.",
    RefusalReason.NO_REPLICA: "No engine can take a request at the moment.",
}


class Overloaded(Exception):
    """The request is not admitted."""

    def __init__(self, reason: RefusalReason, retry_after_s: int) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def problem(self) -> Problem:
        """A 503, which is OpenAI's answer for an overloaded server; 429 is for limits of one
        client."""
        code = "engine_unavailable" if self.reason is RefusalReason.NO_REPLICA else "overloaded"
        return Problem(503, _MESSAGES[self.reason], code, retry_after_s=self.retry_after_s)

"""`Outcome`: the ways in which a request can end. Every request ends in exactly one of them.

`Continuation`: the same for a stream whose replica failed. The values are also metric labels.
"""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    COMPLETED = "completed"
    """The whole answer was sent."""
    REFUSED = "refused"
    """The gateway's own checks refused the request; the engine never saw it."""
    ENGINE_REFUSED = "engine_refused"
    """The engine answered with a 4xx."""
    ENGINE_ERROR = "engine_error"
    """The engine answered with a 5xx, or with an error inside the stream."""
    MISDIRECTED = "misdirected"
    """The replica answered with a status that no engine sends for a request the gateway has
    checked: a redirect, a 204, the 401 of a login page. Something else answers at its address, or
    refuses the gateway's key."""
    CLIENT_GONE = "client_gone"
    """The client closed the connection, or read no bytes for too long."""
    UNAVAILABLE = "unavailable"
    """No replica of the model was ready."""
    OVERLOADED = "overloaded"
    """Refused because the queue was full, or the wait would have been longer than allowed."""
    EXPIRED = "expired"
    """The request's own deadline passed before the answer was complete."""
    UNREACHABLE = "unreachable"
    """The gateway could not connect to the replica."""
    NOT_SENT = "not_sent"
    """The gateway itself could not open a connection: no descriptor or port was left, or the name
    of the replica could not be resolved."""
    TIMED_OUT = "timed_out"
    """The replica exceeded one of the time limits of a stream, or was found hung."""
    TOO_SLOW = "too_slow"
    """An answer that is not streamed was not complete in time. Long answers and full queues cause
    it, too: it says nothing about the replica."""
    TOO_LARGE = "too_large"
    """An answer that is not streamed was longer than the gateway holds."""
    BROKEN = "broken"
    """The replica's answer ended before it was complete."""
    NOT_CONTINUED = "not_continued"
    """The stream broke and another replica could not continue it; not counted against that one."""
    SHUT_DOWN = "shut_down"
    """The gateway stopped before the request ended."""
    INTERNAL_ERROR = "internal_error"
    """A fault of the gateway itself."""


class Continuation(StrEnum):
    """What became of a stream whose replica failed after the stream had begun."""

    RESUMED = "resumed"
    """Another replica sent the next tokens."""
    FAILED = "failed"
    """The other replica failed before it sent any."""
    NOT_CONTINUABLE = "not_continuable"
    """Requests of this kind cannot be continued."""
    GAVE_UP = "gave_up"
    """No replica, time, attempt or budget was left."""

"""`Problem`: an error as clients see it, `{"error": {"message", "type", "param", "code"}}`.

Also the errors that the gateway itself raises. `proxy.engine_errors` translates those of engines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

import msgspec

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.gateway.http.asgi import Headers
from paceline.runtime.gateway.outcomes import Outcome

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
    504: "timeout_error",
    508: "service_unavailable_error",
}
_MAX_LISTED = 20
"""Names that a message lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error. Clients retry a 5xx, unless its headers ask them not to."""

    status: int
    message: str
    code: str
    param: str | None = None
    retry_after_s: int | None = None
    closes_connection: bool = False
    """True when the request's body was not read to its end."""
    should_retry: bool = True
    """Whether a client may repeat the request; a 500 is never to be repeated."""
    allow: str | None = None
    """Methods allowed on the path, for a 405."""

    @property
    def type(self) -> str:
        return _TYPES.get(self.status, "invalid_request_error")

    def body(self) -> bytes:
        return msgspec.json.encode({"error": self._error()})

    def event(self) -> bytes:
        """The error as a server-sent event, for a stream that has begun."""
        return b"data: " + self.body() + b"\n\n"

    def named_event(self, sequence_number: int) -> bytes:
        """The error as an event of a route whose events have names.

        Some clients read the fields of the error under `error`, others next to `type`.
        """
        error = self._error()
        parts = {**error, "type": "error", "sequence_number": sequence_number, "error": error}
        return b"event: error\ndata: " + msgspec.json.encode(parts) + b"\n\n"

    def _error(self) -> dict[str, str | None]:
        return {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }

    def headers(self) -> Headers:
        headers: Headers = []
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        if self.status == 500 or not self.should_retry:
            # OpenAI's clients obey it; without it they would retry.
            headers.append((b"x-should-retry", b"false"))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.closes_connection:
            headers.append((b"connection", b"close"))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        return headers

    def last_answer(self) -> bytes:
        """The error as a whole answer, after which the connection closes."""
        body = self.body()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *replace(self, closes_connection=True).headers(),
        ]
        lines = [b"HTTP/1.1 %d %s" % (self.status, HTTPStatus(self.status).phrase.encode())]
        lines += [b"%s: %s" % header for header in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Refusal(Exception):
    """Ends a request with an error before an engine sees it."""

    def __init__(self, problem: Problem, outcome: Outcome = Outcome.REFUSED) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.outcome = outcome


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Refusal:
    """A 400 about one field."""
    return Refusal(Problem(400, message, code, param))


def shown(value: object) -> str:
    """A short form of a refused value, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a string of {len(value)} characters"
    shown = repr(value)
    return shown if len(shown) <= 40 else "a number out of range"


def listed(names: Sequence[str]) -> str:
    """The first of these names, for a message; empty if there are none."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


def refuse_unknown_fields(
    body: Mapping[str, object], fields: Collection[str], these_are: str = "the settable fields are"
) -> None:
    """Raise a `Refusal` with a 400 for a body with another field."""
    unknown = sorted(set(body) - set(fields))
    if unknown:
        name = unknown[0][:100]
        near = did_you_mean(name, fields) or "."
        message = f"{name!a} cannot be set; {these_are} {', '.join(fields)}{near}"
        raise invalid(message, name, code="unknown_field")


def not_found(path: str) -> Problem:
    return Problem(404, f"This port does not serve {path[:200]!r}.", "not_found")


def method_not_allowed(method: str, path: str, allow: str) -> Problem:
    return Problem(
        405,
        f"{method[:20]} is not allowed on {path[:200]}; allowed: {allow}.",
        "method_not_allowed",
        allow=allow,
    )


def model_not_found(model: str, known: list[str]) -> Refusal:
    served = listed(list(map(repr, known))) or "no model yet"
    return Refusal(
        Problem(
            404,
            f"The model {model[:200]!r} is not served here. Served: {served}.",
            "model_not_found",
            "model",
        )
    )


def unavailable(message: str, retry_after_s: int) -> Problem:
    return Problem(503, message, "engine_unavailable", retry_after_s=retry_after_s)


def deadline_exceeded(deadline_s: float) -> Problem:
    return Problem(
        504,
        f"The answer was not complete within {deadline_s:g} s, the deadline of this request "
        "(header x-request-timeout-ms, at most the server's max_deadline_s).",
        "deadline_exceeded",
    )


def context_length_exceeded(message: str, param: str) -> Problem:
    return Problem(400, message, "context_length_exceeded", param)


STOPPING = Problem(
    503, "The server is stopping; the answer is not complete.", "server_stopping", retry_after_s=5
)
INTERNAL = Problem(500, "The gateway failed on this request; its log says why.", "internal_error")

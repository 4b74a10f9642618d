"""`ClientResponse`: one answer to a client, whole or streamed.

Before the head is sent, an error has its own HTTP status; after it, an error is an event of the
stream. What the client has received is recorded when the server's `send` has returned: a `send`
that is cancelled while it waits for a slow client has sent nothing.
"""

from __future__ import annotations

from paceline.runtime.gateway.delivered import NOTHING, AnswerPart, DeliveredAnswer
from paceline.runtime.gateway.http.asgi import Headers, Receive, Send
from paceline.runtime.gateway.http.body import linger
from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.usage import Usage

_PIECE_BYTES = 64 * 1024
"""A long answer is written in such pieces, each after the client has taken most of the last one."""


class ClientResponse:
    """One answer to one client."""

    def __init__(self, send: Send, request_id: str, *, names_events: bool = False) -> None:
        self._send = send
        self._names_events = names_events
        self._num_events = 0
        self._own_headers: Headers = [(b"x-request-id", request_id.encode("ascii"))]
        self._is_stream = False
        self.delivered = DeliveredAnswer()
        """The parts of the answer that were sent. Read only."""
        self.has_begun = False
        """The head was sent."""
        self.is_complete = False
        """The end was sent."""
        self.whole_body = b""
        """An engine's answer that was sent in one piece."""

    async def whole(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """Send a JSON answer that is complete.

        Suspends until a client that reads slowly has taken all but the last 64 KiB or so.
        """
        await self._start_whole(status, body, headers or [])
        last = max(0, len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
        for start in range(0, last, _PIECE_BYTES):
            piece = body[start : start + _PIECE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        await self._finish(body[last:])

    async def empty(self, headers: Headers) -> None:
        """Send a 204: an answer without a body."""
        await self._send(
            {
                "type": "http.response.start",
                "status": 204,
                "headers": [*self._own_headers, *headers],
            }
        )
        self.has_begun = True
        await self._finish(b"")

    async def whole_answer(self, body: bytes, usage: Usage | None) -> None:
        """Send an engine's answer in one piece; it counts as delivered."""
        await self.whole(200, body)
        self.delivered.commit(AnswerPart(body, usage=usage))
        self.whole_body = body

    async def begin_stream(self) -> None:
        self._is_stream = True
        await self._start(
            200, b"text/event-stream; charset=utf-8", [(b"cache-control", b"no-cache")]
        )

    async def chunk(self, part: AnswerPart) -> None:
        """Send part of a stream. Suspends while the client reads slowly."""
        await self._send({"type": "http.response.body", "body": part.data, "more_body": True})
        self._commit(part)

    async def comment(self, data: bytes) -> None:
        """Send lines that clients skip."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self, last_part: AnswerPart = NOTHING) -> None:
        """Send the last events and the end of the answer in one write."""
        await self._finish(last_part.data)
        if last_part.data:
            self._commit(last_part)

    async def problem(self, problem: Problem) -> None:
        """Send the error in the form that fits what was sent before, and end the answer.

        An answer in one piece whose head was sent cannot hold an error: the server closes the
        connection, and the client misses bytes.
        """
        if self.is_complete:
            return
        if not self.has_begun:
            await self.whole(problem.status, problem.body(), problem.headers())
        elif self._is_stream:
            await self._finish(self.event_of(problem))

    def event_of(self, problem: Problem) -> bytes:
        """The problem as an event of this stream."""
        if self._names_events:
            return problem.named_event(self._num_events)
        return problem.event()

    async def problem_before_body(self, problem: Problem, receive: Receive) -> None:
        """Send the error for a request whose body was not read to its end."""
        body = problem.body()
        await self._start_whole(problem.status, body, problem.headers())
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        await linger(receive)
        await self._finish(b"")

    async def _start_whole(self, status: int, body: bytes, headers: Headers) -> None:
        length = (b"content-length", b"%d" % len(body))
        await self._start(status, b"application/json", [length, *headers])

    async def _start(self, status: int, content_type: bytes, headers: Headers) -> None:
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", content_type), *self._own_headers, *headers],
            }
        )
        self.has_begun = True

    async def _finish(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})
        self.is_complete = True

    def _commit(self, part: AnswerPart) -> None:
        self.delivered.commit(part)
        if self._names_events:
            self._num_events += part.data.count(b"}\n\n")  # each is JSON, and comments are not

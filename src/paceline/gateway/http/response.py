"""`ClientResponse`: one answer to a client, whole or streamed.

It records whether the answer has begun: before that an error is sent with its HTTP status, after it
as an event of the stream.
"""

from __future__ import annotations

from paceline.gateway.http.asgi import Headers, Receive, Send
from paceline.gateway.http.body import linger
from paceline.gateway.http.errors import Problem


class ClientResponse:
    """One answer to one client."""

    def __init__(self, send: Send, request_id: str, *, names_events: bool = False) -> None:
        self._send = send
        self._names_events = names_events
        self._num_events = 0
        self._own_headers: Headers = [(b"x-request-id", request_id.encode("ascii"))]
        self._is_inside_event = False
        self.has_begun = False
        """The head was sent."""
        self.has_data = False
        """Part of the answer was sent, not only comments."""
        self.is_complete = False

    @property
    def is_inside_event(self) -> bool:
        """Part of an event was sent, its end was not."""
        return self._is_inside_event

    async def whole(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """Send a JSON answer in one piece."""
        await self._start_whole(status, body, headers or [])
        await self._finish(body)

    async def begin_stream(self) -> None:
        await self._start(
            200, b"text/event-stream; charset=utf-8", [(b"cache-control", b"no-cache")]
        )

    async def chunk(self, data: bytes, *, ends_event: bool = True) -> None:
        """Send part of a stream. Suspends while the client reads slowly."""
        self.has_data = True
        self._is_inside_event = not ends_event
        if self._names_events:
            self._num_events += data.count(b"\n\n")
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def comment(self, data: bytes) -> None:
        """Send lines that clients skip."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end_stream(self, last_events: bytes = b"") -> None:
        """Send the last events and the end of the answer in one write."""
        await self._finish(last_events)

    async def problem(self, problem: Problem) -> None:
        """Send the error in the form that fits what was sent before, and end the answer."""
        if self.is_complete:
            return
        if not self.has_begun:
            await self.whole(problem.status, problem.body(), problem.headers())
        else:
            end = b"\n\n" if self._is_inside_event else b""
            await self._finish(end + self.event_of(problem))

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
        self.has_begun = True
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", content_type), *self._own_headers, *headers],
            }
        )

    async def _finish(self, body: bytes) -> None:
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

"""A cheap streaming client that records when each part of an answer arrives.

It must not dominate the measurement: one protocol per connection, no task per request, connections
are reused. It records times; `records` turns them into figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import httptools

_DATA = b"data: "
_DONE = b"data: [DONE]"
_ENDS = b'"finish_reason":"'
_IDLE_S = 3.0
"""Connections idle for longer are not reused; servers close theirs after 5 s or more."""


@dataclass(slots=True)
class Exchange:
    """One request and its answer. Times are `time.perf_counter()`."""

    sent_s: float
    on_end: Callable[[Exchange], None]
    due_s: float = 0.0
    """When the request was due."""
    ended_s: float = 0.0
    status: int = 0
    """0 if the connection failed before an answer began."""
    is_complete: bool = False
    """The answer was complete; a stream had its `[DONE]`."""
    is_cut: bool = False
    """The load generator dropped it."""
    arrivals_s: array[float] = field(default_factory=lambda: array("d"))
    """Times of the reads with events, up to the one with the end of the answer."""
    body: bytes = b""
    """The body of an answer that is no stream."""


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._is_whole = self._has_ended = self._keeps_alive = False
        self._body: list[bytes] = []
        self.idle_since_s = 0.0

    def send(self, exchange: Exchange, request: bytes) -> None:
        assert self._transport is not None
        self._exchange = exchange
        self._is_whole = self._has_ended = False
        self._body = []
        exchange.sent_s = time.perf_counter()
        self._transport.write(request)

    @property
    def is_usable(self) -> bool:
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and time.perf_counter() - self.idle_since_s < _IDLE_S
        )

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass

    def data_received(self, data: bytes) -> None:
        self._now_s = time.perf_counter()
        self._parser.feed_data(data)
        exchange = self._exchange
        if exchange is None:
            return
        if self._body and exchange.status == 200:
            self._record(exchange, b"".join(self._body))
            self._body = []
        if self._is_whole:
            self._end(exchange)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        if self._exchange is not None:
            self._now_s = time.perf_counter()
            self._end(self._exchange)

    def _record(self, exchange: Exchange, body: bytes) -> None:
        if _DATA in body and not self._has_ended:
            exchange.arrivals_s.append(self._now_s)
            self._has_ended = _ENDS in body
        if _DONE in body:
            exchange.is_complete = True

    def _end(self, exchange: Exchange) -> None:
        exchange.ended_s = self._now_s
        if exchange.status != 200:
            exchange.body = b"".join(self._body)
            exchange.is_complete = self._is_whole
        self._exchange = None
        if self._is_whole and self._keeps_alive:
            self._parser = httptools.HttpResponseParser(self)
            self.idle_since_s = self._now_s
            self._pool.idle(self)
        else:
            self.close()
        exchange.on_end(exchange)

    # Callbacks of httptools
    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_whole = True
        self._keeps_alive = self._parser.should_keep_alive()  # not available afterwards


class Pool:
    """The connections to one server."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}:{port}\r\n"
            "content-type: application/json\r\nauthorization: Bearer none\r\n"
        ).encode()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def send(self, body: bytes, on_end: Callable[[Exchange], None], due_s: float) -> None:
        """Send a request; `on_end` is called exactly once, also when the server fails."""
        request = b"%bcontent-length: %d\r\n\r\n%b" % (self._head, len(body), body)
        exchange = Exchange(time.perf_counter(), on_end, due_s)
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                connection.send(exchange, request)
                return
            connection.close()
        opening = asyncio.ensure_future(self._open_and_send(exchange, request))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open_and_send(self, exchange: Exchange, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        with contextlib.suppress(OSError):
            _, connection = await loop.create_connection(
                lambda: Connection(self), self._host, self._port
            )
        if connection is not None and not self._is_closed:
            self._open.add(connection)
            connection.send(exchange, request)
            return
        if connection is not None:
            connection.close()
        exchange.ended_s = time.perf_counter()
        exchange.on_end(exchange)

    def idle(self, connection: Connection) -> None:
        self._idle.append(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)

    def close(self) -> None:
        """Drop all connections, which ends their exchanges."""
        self._is_closed = True
        for connection in list(self._open):
            connection.close()

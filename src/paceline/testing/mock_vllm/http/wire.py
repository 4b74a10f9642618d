"""HTTP/1.1 connections on asyncio transports, without a task per request.

Each complete request is passed to `route` as an `Exchange`, which may be answered at any later
time. Headers and framing are those of uvicorn, vLLM's server: one HTTP chunk per event. A client
that closes or half-closes its connection aborts its request.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Collection
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

import httptools

from paceline.testing.mock_vllm.answer_style import AnswerStyle
from paceline.testing.mock_vllm.http.styled_stream import StyledStream

_CRLF = b"\r\n"
FLUSH_S = 0.01
"""Delay before a connection is reset or the process ends, so that written bytes reach the kernel:
uvloop writes at the end of each loop iteration. Chosen empirically."""
_ZERO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER value with which closing a socket resets the connection."""
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_date = (0, b"")


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_connection",
        "_keeps_alive",
        "_stream",
        "_styles",
        "body",
        "headers",
        "is_answered",
        "is_begun",
        "method",
        "on_disconnect",
        "on_writable",
        "path",
    )

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keeps_alive = True
        self._styles: Collection[AnswerStyle] = ()
        self._stream: StyledStream | None = None
        self.method = ""
        self.path = ""
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_begun = False
        self.is_answered = False
        self.on_disconnect: Callable[[], None] | None = None
        """Called at most once, if the client disconnects before the answer is complete."""
        self.on_writable: Callable[[], None] | None = None
        """Called when the client reads again after `is_writable` was false."""

    @property
    def is_writable(self) -> bool:
        return not self._connection.is_paused

    def set_styles(self, styles: Collection[AnswerStyle], seed: int) -> None:
        """Write the answer in these styles; call it before anything is sent."""
        if styles:
            self._styles, self._stream = styles, StyledStream(styles, seed)
            self._keeps_alive &= not self._is_close_delimited

    def respond(
        self,
        status: int,
        body: bytes = b"",
        content_type: str | None = "application/json",
        extra: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Send a complete answer."""
        if AnswerStyle.GZIP in self._styles:
            body = gzip.compress(body)
        head = [self._head(status), self._framing(len(body))]
        if content_type is not None:
            head.append(b"content-type: %b\r\n" % content_type.encode())
        head += [f"{name}: {value}\r\n".encode() for name, value in extra]
        self.is_begun = True
        self.write(b"".join([*head, _CRLF, body]))
        self.end()

    def begin_body(self, num_bytes: int) -> None:
        """Send the head of an answer with this content length; the body may stay incomplete."""
        self.is_begun = True
        self.write(
            self._head(200) + self._framing(num_bytes) + b"content-type: application/json\r\n\r\n"
        )

    def begin_stream(self) -> None:
        """Send the head of a stream. Does nothing if a head was sent."""
        if self.is_begun:
            return
        self.is_begun = True
        content_type = b"text/event-stream; charset=utf-8"
        if AnswerStyle.JSON_LABEL in self._styles:
            content_type = b"application/json"
        self.write(
            self._head(200) + b"content-type: %b\r\n%b\r\n" % (content_type, self._framing(None))
        )

    def send(self, *events: bytes) -> None:
        """Send one HTTP chunk per event, all in one write; in a style, one chunk per packet."""
        if self._stream is not None:
            events = (self._stream.take(*events),)
        self._send_parts(events)

    def end_stream(self) -> None:
        if self._stream is not None:
            self._send_parts((self._stream.end(),))
        if not self._is_close_delimited:
            self.write(b"0\r\n\r\n")
        self.end()

    def _send_parts(self, parts: tuple[bytes, ...]) -> None:
        if self._is_close_delimited:
            self.write(b"".join(parts))
        else:
            self.write(b"".join([b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part]))

    @property
    def _is_close_delimited(self) -> bool:
        return AnswerStyle.CLOSE_DELIMITED in self._styles

    def _head(self, status: int) -> bytes:
        head = _head(status)
        if AnswerStyle.GZIP in self._styles:
            head += b"content-encoding: gzip\r\n"
        if self._is_close_delimited:
            return head.replace(b"HTTP/1.1", b"HTTP/1.0", 1) + b"connection: close\r\n"
        return head

    def _framing(self, num_bytes: int | None) -> bytes:
        """The header that says where the body ends; None: a stream, whose length is unknown."""
        if self._is_close_delimited:
            return b""
        if num_bytes is None:
            return b"transfer-encoding: chunked\r\n"
        return b"content-length: %d\r\n" % num_bytes

    @property
    def is_disconnected(self) -> bool:
        """Whether the client has closed its connection."""
        return self._connection.is_lost

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._connection.write(data)

    def end(self) -> None:
        """Mark the answer as complete, so that the connection's next request is answered."""
        self.is_answered = True
        self.on_disconnect = self.on_writable = None
        self._connection.answered(self._keeps_alive)

    def reset(self) -> None:
        """Close the connection with a TCP reset, after the written bytes are sent."""
        asyncio.get_running_loop().call_later(FLUSH_S, self._connection.reset)

    def half_close(self) -> None:
        """Close the connection for writing and keep it open for reading."""
        self._connection.half_close()

    def close(self) -> None:
        """Close the connection normally after the written bytes, whether complete or not."""
        self._connection.close()


class Connection(asyncio.Protocol):
    """One connection; its requests are answered one after another."""

    def __init__(self, route: Callable[[Exchange], None], connections: set[Connection]) -> None:
        self._route = route
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._queued: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._incoming: Exchange | None = None
        self._parts: list[bytes] = []
        self._url = b""
        self.is_paused = False
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._connections.discard(self)
        self._queued.clear()
        current, self._current = self._current, None
        if current is not None and current.on_disconnect is not None:
            current.on_disconnect()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.write(_head(400) + b"content-length: 0\r\nconnection: close\r\n\r\n")
            self.close()
        self._answer_next()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._current is not None and self._current.on_writable is not None:
            self._current.on_writable()

    # Callbacks of httptools
    def on_message_begin(self) -> None:
        self._incoming = Exchange(self)
        self._parts, self._url = [], b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._incoming is not None
        self._incoming.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._incoming is not None
        if self._incoming.headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        exchange, self._incoming = self._incoming, None
        assert exchange is not None
        exchange.method = self._parser.get_method().decode()
        exchange.path = self._url.partition(b"?")[0].decode("latin-1")
        exchange.body = b"".join(self._parts)
        exchange._keeps_alive = self._parser.should_keep_alive()
        self._queued.append(exchange)

    def _answer_next(self) -> None:
        if self._queued and self._current is None:
            self._current = self._queued.popleft()
            self._route(self._current)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def answered(self, keeps_alive: bool) -> None:
        self._current = None
        if not keeps_alive:
            self.close()
        else:
            self._answer_next()

    def reset(self) -> None:
        if self.is_lost:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ZERO_LINGER)
        self._transport.abort()

    def half_close(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        self._transport.close()


def _head(status: int) -> bytes:
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, formatdate(now, usegmt=True).encode())
    return b"HTTP/1.1 %d %b\r\ndate: %b\r\nserver: uvicorn\r\nvary: Origin\r\n" % (
        status,
        _REASONS.get(status, b""),
        _date[1],
    )

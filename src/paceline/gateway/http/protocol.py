"""`GuardedProtocol`: uvicorn's HTTP protocol with limits per connection.

It limits the size of a request's head, the time in which the head must arrive, and the time for
which a client may leave written bytes unread. Its errors have the gateway's shape. `body` limits
request bodies.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paceline.gateway.http.errors import Problem
from paceline.gateway.http.joined_head import JoinedHead

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers. Chosen empirically: web servers allow 8 to 64 KiB."""

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing the socket drops unsent bytes, also those in the kernel."""

_NOT_HTTP = Problem(400, "The request is not valid HTTP.", "invalid_http")
_HEAD_TOO_LARGE = Problem(
    431, f"The headers are longer than {MAX_HEAD_BYTES} bytes; send less.", "headers_too_large"
)
_HEAD_TOO_SLOW = Problem(
    408, "The headers were not complete in time; send them faster.", "headers_timeout"
)


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, *args: Any, head_timeout_s: float, client_stall_timeout_s: float, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._head_timeout_s = head_timeout_s
        self._client_stall_timeout_s = client_stall_timeout_s
        self._stall_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._num_head_bytes = 0
        self._is_in_head = True
        self._is_all_head = False  # the bytes just parsed are all part of one head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_head and self._head_timer is None:
            self._start_head_timer()  # the next request on a kept-alive connection
        self._is_all_head = self._is_in_head
        super().data_received(data)
        if self._is_all_head:
            self._num_head_bytes += len(data)
            if self._num_head_bytes > MAX_HEAD_BYTES:
                self._refuse(_HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._is_all_head = False
        self._num_head_bytes = 0
        self._stop_head_timer()
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise ValueError("the parser accepts 0.9 and 2.0 too")  # answered like any parse error
        super().on_headers_complete()
        self.cycle.transport = cast(asyncio.Transport, JoinedHead(self.transport))

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._is_all_head = False
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_client()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_client()

    def on_response_complete(self) -> None:
        self._watch_client()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(_NOT_HTTP)

    def _refuse(self, problem: Problem) -> None:
        if self.transport.is_closing():
            return
        body = problem.body()
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s"
            % (problem.status, HTTPStatus(problem.status).phrase.encode(), len(body), body)
        )
        self._watch_client()
        self.transport.close()

    def reset_if_paused(self) -> None:
        """Drop the connection if its answer is held up by a client that does not read."""
        if self.flow.write_paused:
            self._reset()

    def _watch_client(self) -> None:
        """Drop the connection unless the client reads some of the written bytes in each period.

        Closing it instead would wait until the client has read everything.
        """
        self._stop_stall_timer()
        num_bytes = self.transport.get_write_buffer_size()
        if num_bytes:
            self._stall_timer = self.loop.call_later(
                self._client_stall_timeout_s, self._check_client, num_bytes
            )

    def _check_client(self, num_bytes_before: int) -> None:
        # While an answer is still being written, the buffer may grow although the client reads.
        is_all_written = (
            self.flow.write_paused
            or self.transport.is_closing()
            or self.cycle is None
            or self.cycle.response_complete
        )
        if is_all_written and self.transport.get_write_buffer_size() >= num_bytes_before:
            self._reset()
        else:
            self._watch_client()

    def _reset(self) -> None:
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET
        )
        self.transport.abort()

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._head_timeout_s, self._refuse, _HEAD_TOO_SLOW)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

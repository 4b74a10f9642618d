"""What protects the server before a request has begun?

uvicorn's HTTP protocol with a bound on the size of a request's head and on the time it may take,
and with errors in our shape. Bodies are the business of `body`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paceline.gateway.errors import Problem

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers; chosen by hand, web servers allow 8 to 64 KiB."""

_NOT_HTTP = Problem(400, "The request is not valid HTTP.", "invalid_http")
_HEAD_TOO_LARGE = Problem(
    431, f"The headers are longer than {MAX_HEAD_BYTES} bytes; send less.", "headers_too_large"
)
_HEAD_TOO_SLOW = Problem(408, "The headers came too slowly.", "headers_timeout")


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, head_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timeout_s = head_timeout_s
        self._head_timer: asyncio.TimerHandle | None = None
        self._num_head_bytes = 0
        self._is_in_head = True
        self._is_all_head = False  # the bytes just parsed held nothing but part of a head

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_head and self._head_timer is None:
            self._start_timer()  # a further request on a connection that was kept
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
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._is_all_head = False
        super().on_message_complete()

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
        self.transport.close()

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._head_timeout_s, self._refuse, _HEAD_TOO_SLOW)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

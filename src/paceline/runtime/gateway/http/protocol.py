"""`GuardedProtocol`: uvicorn's HTTP protocol with limits per connection.

It limits the size of a request's head and of the framing around its body, the time in which the
head must arrive, and the time for which a client may leave written bytes unread. Its errors have
the gateway's shape, and none is ever written into an answer. `body` limits request bodies.

Requests are not pipelined: one that is complete before the last answer is not served, and the
connection closes after that answer.

An offer to change the protocol (`Upgrade`) is ignored, and its request is served as any other (RFC
9110, 7.8), which llhttp would not do: see `_parse`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from paceline.runtime.gateway.http.asgi import Scope
from paceline.runtime.gateway.http.connection_limit import ConnectionLimit
from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.http.http10 import Http10Cycle
from paceline.runtime.gateway.http.joined_head import JoinedHead
from paceline.runtime.gateway.http.request_head import InvalidHead, head_without_offer, read_head
from paceline.runtime.gateway.time_limits import ENDING_IDLE_S

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers. Chosen empirically: web servers allow 8 to 64 KiB."""

MAX_HEADERS = 100
"""Each makes two Python objects, whatever its length. Chosen empirically: web servers allow 100."""

MAX_FRAMING_BYTES = 64 * 1024
"""Bytes of a chunked body that are not body, apart from `_FRAMING_PER_BODY_BYTE`."""
_FRAMING_PER_BODY_BYTE = 6
"""The framing of a chunk with one byte takes five: its length, and two line ends."""

CLOSE = (b"connection", b"close")
"""The header that announces the end of a connection."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing the socket drops unsent bytes, also those in the kernel."""

_NOT_HTTP = Problem(400, "The request is not valid HTTP.", "invalid_http")
_HEAD_TOO_LARGE = Problem(
    431, f"The headers are longer than {MAX_HEAD_BYTES} bytes; send less.", "headers_too_large"
)
_TOO_MANY_HEADERS = Problem(
    431, f"There are more than {MAX_HEADERS} headers; send fewer.", "headers_too_large"
)
_FRAMING_TOO_LARGE = Problem(
    400,
    f"More than {MAX_FRAMING_BYTES} bytes of the chunked body are no body; send larger chunks, "
    "without extensions or trailers.",
    "invalid_http",
)
_TOO_MANY_CONNECTIONS = Problem(
    503,
    "The gateway has as many connections as it may (server.max_connections); try again later.",
    "too_many_connections",
    retry_after_s=5,
)
_WRITE_BUFFER_BYTES = 32 * 1024
"""An answer waits when more than this is to be sent to its client. Python's default is 64 KiB."""

_HEAD_TOO_SLOW = Problem(
    408, "The headers were not complete in time; send them faster.", "headers_timeout"
)
_NO_TUNNELS = Problem(400, "CONNECT asks for a tunnel; this server opens none.", "invalid_http")


def new_parser(protocol: HttpToolsProtocol) -> httptools.HttpRequestParser:
    """A parser at the start of a request."""
    parser = httptools.HttpRequestParser(protocol)
    # Without it, a request that arrives before the connection closes would end the answer before.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        *args: Any,
        head_timeout_s: float,
        client_stall_timeout_s: float,
        min_client_bytes_per_s: float,
        limit: ConnectionLimit[GuardedProtocol],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._limit = limit
        self._min_bytes_per_check = client_stall_timeout_s * min_client_bytes_per_s
        self._head_timeout_s = head_timeout_s
        self._client_stall_timeout_s = client_stall_timeout_s
        self._stall_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._is_in_head = True
        self._has_begun_head = False
        """More than blank lines of it has arrived."""
        self._num_head_bytes = 0
        self._num_body_bytes = 0
        self._num_framing_bytes = 0
        self._is_one_phase = False
        """The bytes being parsed belong to one head or one body."""
        self._ignores_input = False
        self._parse_problem = _NOT_HTTP
        """What to answer when a callback of the parser raises."""
        self._is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        replaced = self._limit.add(self)
        if replaced is self:
            self._refuse(_TOO_MANY_CONNECTIONS)
            return
        if replaced is not None:
            replaced._end_wait(_TOO_MANY_CONNECTIONS)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.remove(self)
        self._stop_head_timer()
        self._stop_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        if self._is_in_head and self._head_timer is None and not self._is_answering:
            self._start_head_timer()  # the next request on a kept-alive connection
        self._unset_keepalive_if_required()
        while data and not self._ignores_input:
            # Not more than a head may still have: a read may hold four times as many bytes, and a
            # head that ends within them would not be counted.
            num_allowed = MAX_HEAD_BYTES - (self._num_head_bytes if self._is_in_head else 0)
            if not num_allowed:
                self._refuse(_HEAD_TOO_LARGE)
                return
            self._receive(data[:num_allowed])
            data = data[num_allowed:]

    def _receive(self, data: bytes) -> None:
        self._is_one_phase = True
        num_body_bytes_before = self._num_body_bytes
        self._parse(data)
        if not self._is_one_phase:
            return
        if self._is_in_head:
            self._num_head_bytes += len(data)
        else:
            self._num_framing_bytes += len(data) - (self._num_body_bytes - num_body_bytes_before)
            allowed = MAX_FRAMING_BYTES + _FRAMING_PER_BODY_BYTE * self._num_body_bytes
            if self._num_framing_bytes > allowed:
                self._refuse(_FRAMING_TOO_LARGE)

    def _parse(self, data: bytes) -> None:
        """Feed the parser.

        At the end of a head that offers another protocol, or asks for a tunnel, llhttp stops and
        returns the rest. Another parser then reads that head without the offer, and continues with
        the rest: it is as strict, and keeps to the lengths that the head gives.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self.parser.get_method() == b"CONNECT":
                self._refuse(_NO_TUNNELS)
                return
            head = head_without_offer(
                self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers
            )
            self.parser = new_parser(self)
            self._parse(head)
            num_parsed = offer.args[0]
            if num_parsed < len(data) and not self._ignores_input:
                self._parse(data[num_parsed:])
        except httptools.HttpParserError:
            self._refuse(self._parse_problem)

    def on_message_begin(self) -> None:
        self._has_begun_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            raise ValueError("trailers are not accepted")  # answered like any parse error
        if len(self.headers) >= MAX_HEADERS:
            self._parse_problem = _TOO_MANY_HEADERS
            raise ValueError("too many headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # `_parse` has the head read again
        if self._is_answering:
            raise ValueError("requests are not pipelined")
        self._begin_request(self.parser.get_http_version())
        self._is_in_head = self._has_begun_head = False
        self._is_one_phase = False
        self._num_head_bytes = 0
        self._num_body_bytes = self._num_framing_bytes = 0
        self._stop_head_timer()
        self._unset_keepalive_if_required()  # set by `on_message_complete` in the same read
        self._limit.set_uploading(self)

    def _begin_request(self, version: str) -> None:
        try:
            head = read_head(version, self.url, self.headers)
        except InvalidHead as error:
            self._parse_problem = replace(_NOT_HTTP, message=f"{_NOT_HTTP.message[:-1]}: {error}.")
            raise
        cast(Scope, self.scope).update(
            method=self.parser.get_method().decode("ascii"),
            http_version=version,
            path=head.path,
            raw_path=head.raw_path,
            query_string=head.query,
            headers=head.headers,
        )
        is_old = version == "1.0"
        self.cycle = (Http10Cycle if is_old else RequestResponseCycle)(
            scope=self.scope,
            transport=cast(asyncio.Transport, JoinedHead(self.transport)),
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and not is_old,
            keep_alive=not is_old and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._num_body_bytes += len(body)
        if not self.cycle.response_started:
            super().on_body(body)
        elif not self.flow.read_paused:
            # It was refused, and the rest is discarded: one read in each turn of the event loop.
            self.flow.pause_reading()
            self.loop.call_soon(self.flow.resume_reading)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._is_in_head = True
        self._is_one_phase = False
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._limit.set_answering(self)
        else:  # its limit has ended, because bytes arrived
            self._limit.set_waiting(self)
            self._stop_head_timer()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_client()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch_client()

    def on_response_complete(self) -> None:
        self._watch_client()
        super().on_response_complete()
        has_more = self._has_begun_head or not self._is_in_head
        if has_more and self._head_timer is None and not self.transport.is_closing():
            self._start_head_timer()  # for the next head, or for the rest of a body
        if self._is_ending and not self.transport.is_closing():
            self._close_when_idle()

    @property
    def _is_answering(self) -> bool:
        """A request is complete and its answer is not."""
        return self._is_in_head and self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, problem: Problem) -> None:
        """Send this error and close the connection, or close it after the answer in progress."""
        self._ignores_input = True
        if self.transport.is_closing():
            return
        if self._is_answering:
            self.cycle.keep_alive = False
            return
        if self.cycle is not None and not self._is_in_head:  # the body is not complete
            if self.cycle.response_started:  # it was refused, or is not needed
                self.cycle.transport.close()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(problem.last_answer())
        self._watch_client()
        self.transport.close()

    def announce_end(self) -> None:
        """Send the default headers of today, `Connection: close`, with answers not yet begun."""
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.default_headers = self.server_state.default_headers

    def shutdown(self) -> None:
        """Close the connection once its client can know that it ends.

        A client that has read an answer without `Connection: close` may send its next request at
        any moment, and would lose it. Where the end was announced, such a connection is kept for a
        while; the next answer closes it.
        """
        if CLOSE not in self.server_state.default_headers:
            super().shutdown()
            return
        self._is_ending = True
        if self.cycle is None or self.cycle.response_complete:
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        self.loop.call_later(ENDING_IDLE_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            super().shutdown()

    def reset_if_paused(self) -> None:
        """Drop the connection if its answer is held up by a client that does not read."""
        if self.flow.write_paused:
            self._reset()

    def _watch_client(self) -> None:
        """Drop the connection unless the client reads enough of the written bytes in each period.

        Enough is `min_client_bytes_per_s`, or everything. Closing it instead would wait until the
        client has read everything.
        """
        self._stop_stall_timer()
        num_bytes = self.transport.get_write_buffer_size()
        if num_bytes:
            self._stall_timer = self.loop.call_later(
                self._client_stall_timeout_s, self._check_client, num_bytes
            )
        elif self._is_in_head and not self._is_answering:
            self._limit.set_waiting(self)

    def _check_client(self, num_bytes_before: int) -> None:
        # While an answer is still being written, the buffer may grow although the client reads.
        is_all_written = (
            self.flow.write_paused
            or self.transport.is_closing()
            or self.cycle is None
            or self.cycle.response_complete
        )
        num_bytes_left = self.transport.get_write_buffer_size()
        num_bytes_read = num_bytes_before - num_bytes_left
        if is_all_written and num_bytes_left and num_bytes_read < self._min_bytes_per_check:
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
        self._head_timer = self.loop.call_later(self._head_timeout_s, self._end_slow_head)

    def _end_slow_head(self) -> None:
        self._end_wait(_HEAD_TOO_SLOW)

    def _end_wait(self, problem: Problem) -> None:
        """Close the connection, which waits for a request or for the rest of one."""
        is_unanswered = self.cycle is not None and not self.cycle.response_complete
        if self._has_begun_head or is_unanswered:
            self._refuse(problem)
        else:  # there is no request to answer; a client would take it for its next answer
            self.transport.close()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

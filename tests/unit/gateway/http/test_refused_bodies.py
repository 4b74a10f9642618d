"""The rest of a body that is refused or not needed: read in parts, in time, without an answer."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from polling import turns_of_the_event_loop, until

from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.http.response import ClientResponse
from unit.gateway.admission.simulated_loop import simulated
from unit.gateway.http.in_memory import connected

FULL = Problem(503, "full", "buffers_full", closes_connection=True)
PART = b"x" * 250_000
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (10 * len(PART))
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = b"1\r\nx\r\n"


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await ClientResponse(send, "id").problem_before_body(FULL, receive)


async def ignore(scope: Scope, receive: Receive, send: Send) -> None:
    await send_body(send, 200, b"{}")


async def test_a_read_of_many_small_chunks_is_followed_by_one_pause() -> None:
    """A client may send a chunk for each byte, so that one read has thousands of them."""
    connection, transport = connected(refuse)
    connection.data_received(CHUNKED_HEAD + 2 * CHUNK)
    await turns_of_the_event_loop(5)
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    connection.loop = Mock(wraps=connection.loop)
    connection.data_received(100 * CHUNK)
    assert transport.is_paused
    assert connection.loop.call_soon.call_count == 1
    connection.connection_lost(None)
    await turns_of_the_event_loop(5)


async def test_a_body_that_is_not_needed_must_arrive_in_time() -> None:
    """Or the client could hold the connection for ever, without a key."""
    connection, transport = connected(ignore, head_timeout_s=0.05)
    connection.data_received(HEAD)
    await turns_of_the_event_loop(5)
    assert transport.written.startswith(b"HTTP/1.1 200 ")

    def is_closed_after_another_byte() -> bool:
        connection.data_received(b"x")
        return transport.is_closed

    await until(is_closed_after_another_byte)
    connection.connection_lost(None)


async def test_no_error_follows_an_answer_that_did_not_need_the_body() -> None:
    """The client would take it for the answer to its next request."""
    connection, transport = connected(ignore)
    connection.data_received(CHUNKED_HEAD)
    await turns_of_the_event_loop(5)
    answer = transport.written
    connection.data_received(b"no chunk\r\n")
    assert transport.written == answer
    assert transport.is_closed
    connection.connection_lost(None)


async def test_the_next_request_on_a_connection_may_be_no_http() -> None:
    connection, transport = connected(ignore)
    connection.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await turns_of_the_event_loop(5)
    assert transport.written.startswith(b"HTTP/1.1 200 ")
    connection.data_received(b"GET / HTTP/2.0\r\nhost: x\r\n\r\n")
    assert b"HTTP/1.1 400 " in transport.written
    assert transport.is_closed
    connection.connection_lost(None)


@simulated
async def test_a_connection_is_idle_after_a_body_that_was_not_needed() -> None:
    connection, transport = connected(ignore, head_timeout_s=0.05)
    connection.timeout_keep_alive = 60
    connection.data_received(CHUNKED_HEAD)
    await turns_of_the_event_loop(5)
    connection.data_received(CHUNK + b"0\r\n\r\n")
    assert connection.timeout_keep_alive_task is not None
    await asyncio.sleep(0.1)
    assert not transport.is_closed
    connection.connection_lost(None)


async def test_a_request_in_the_same_read_as_the_end_of_such_a_body_has_no_idle_limit() -> None:
    connection, transport = connected(ignore)
    connection.data_received(CHUNKED_HEAD)
    await turns_of_the_event_loop(5)
    connection.data_received(CHUNK + b"0\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert connection.timeout_keep_alive_task is None
    await turns_of_the_event_loop(5)
    assert transport.written.count(b"HTTP/1.1 200 ") == 2
    connection.connection_lost(None)


async def test_one_part_of_a_refused_body_is_read_per_turn() -> None:
    connection, transport = connected(refuse)
    connection.data_received(HEAD + PART)
    await turns_of_the_event_loop(5)
    assert transport.written.startswith(b"HTTP/1.1 503 ")
    assert not transport.is_paused
    for _ in range(3):
        connection.data_received(PART)
        assert transport.is_paused
        await turns_of_the_event_loop(2)
        assert not transport.is_paused
    connection.connection_lost(None)
    await turns_of_the_event_loop(5)

"""The rest of a refused body is read a part at a time, so that other clients are served between."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from paceline.gateway.http.asgi import Receive, Scope, Send
from paceline.gateway.http.errors import Problem
from paceline.gateway.http.protocol import GuardedProtocol
from paceline.gateway.http.response import ClientResponse

FULL = Problem(503, "full", "buffers_full", closes_connection=True)
PART = b"x" * 250_000
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (10 * len(PART))


class RecordingTransport(asyncio.Transport):
    """A connection whose peer is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await ClientResponse(send, "id").problem_before_body(FULL, receive)


def connected() -> tuple[GuardedProtocol, RecordingTransport]:
    protocol = functools.partial(
        GuardedProtocol,
        head_timeout_s=30.0,
        client_stall_timeout_s=30.0,
        min_client_bytes_per_s=1.0,
        max_connections=10,
    )
    config = uvicorn.Config(refuse, http=protocol, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    connection = protocol(config=config, server_state=ServerState(), app_state={})
    transport = RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


async def turns_of_the_event_loop(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_one_part_of_a_refused_body_is_read_per_turn() -> None:
    connection, transport = connected()
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

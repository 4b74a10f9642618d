"""A connection to `GuardedProtocol` without a socket: the test is its client."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from typing import Any

import uvicorn
from polling import turns_of_the_event_loop
from uvicorn.server import ServerState

from paceline.runtime.gateway.http.asgi import App
from paceline.runtime.gateway.http.connection_limit import ConnectionLimit
from paceline.runtime.gateway.http.protocol import GuardedProtocol


class RecordingTransport(asyncio.Transport):
    """A connection whose peer is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.num_unread = 0
        """What `get_write_buffer_size` returns."""
        self.is_paused = self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.num_unread

    def close(self) -> None:
        self.is_closed = True


def connected(
    app: App,
    *,
    head_timeout_s: float = 30.0,
    limit: ConnectionLimit[GuardedProtocol] | None = None,
) -> tuple[GuardedProtocol, RecordingTransport]:
    """A new connection; those of one port share a `limit`."""
    protocol = functools.partial(
        GuardedProtocol,
        head_timeout_s=head_timeout_s,
        client_stall_timeout_s=30.0,
        min_client_bytes_per_s=1.0,
        limit=limit or ConnectionLimit(10),
    )
    config = uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
    )
    config.load()
    connection = protocol(config=config, server_state=ServerState(), app_state={})
    transport = RecordingTransport()
    connection.connection_made(transport)
    return connection, transport


async def answer_to(app: App, parts: Iterable[bytes]) -> tuple[bytes, bool]:
    """What a new connection gets for these packets, and whether it is closed then."""
    connection, transport = connected(app)
    for part in parts:
        if not transport.is_closed:
            connection.data_received(part)
        await turns_of_the_event_loop(2)
    await turns_of_the_event_loop(8)
    connection.connection_lost(None)
    await turns_of_the_event_loop(4)
    return transport.written, transport.is_closed

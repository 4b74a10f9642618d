"""Requests as raw bytes, on connections of their own."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chaos.fleet import Fleet


def address_of(fleet: Fleet) -> tuple[str, int]:
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    return host, int(port)


def request_head(body: dict[str, object], length: int | None = None) -> bytes:
    num_bytes = len(json.dumps(body)) if length is None else length
    return (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {num_bytes}\r\n\r\n"
    ).encode()


@asynccontextmanager
async def connected(
    fleet: Fleet, num_sockets: int, receive_buffer_bytes: int | None = None
) -> AsyncIterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    try:
        for _ in range(num_sockets):
            client = socket.socket()
            sockets.append(client)
            if receive_buffer_bytes is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            client.connect(address_of(fleet))
        yield sockets
    finally:
        for client in sockets:
            client.close()

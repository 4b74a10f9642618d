"""A relay between a client and the gateway that keeps what both have sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Relay:
    url: str = ""
    sent: list[bytearray] = field(default_factory=list)
    """What the client sent on each of its connections."""
    received: list[bytearray] = field(default_factory=list)
    """What it received on each of them."""

    @property
    def num_answers(self) -> int:
        """Answers on all connections, without interim ones."""
        received = b"".join(self.received)
        return received.count(b"HTTP/1.1 ") - received.count(b"HTTP/1.1 100 ")


@contextlib.asynccontextmanager
async def relay_to(url: str) -> AsyncIterator[Relay]:
    """A relay to the server with this URL, at a URL of its own."""
    target, relay = urlsplit(url), Relay()

    async def connect(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        relay.sent.append(sent := bytearray())
        relay.received.append(received := bytearray())
        server, to_server = await asyncio.open_connection(target.hostname, target.port)
        with contextlib.closing(to_client), contextlib.closing(to_server):
            await asyncio.gather(_copy(client, to_server, sent), _copy(server, to_client, received))

    listening = await asyncio.start_server(connect, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    relay.url = f"http://{host}:{port}"
    async with listening:
        yield relay


async def _copy(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, kept: bytearray
) -> None:
    """All bytes, and the end: a client that leaves leaves the server as well."""
    with contextlib.suppress(ConnectionError):
        while part := await source.read(65536):
            kept += part
            target.write(part)
            await target.drain()
    target.close()

"""Connect to the server of an audit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.transport import HttpTransport


@asynccontextmanager
async def connected(
    url: str, model: str | None, api_key: str | None, concurrency: int
) -> AsyncIterator[Server]:
    """A server with a session of its own, which ends with the context."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        transport = HttpTransport(session, URL(url), api_key=api_key, concurrency=concurrency)
        yield Server(transport, url=url, model=model)

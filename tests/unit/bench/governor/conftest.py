"""A governed server in the event loop of the test, in virtual time with real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from unit.bench.governor.governed_server import GovernedServer
from unit.bench.trace.virtual_time import (
    clocks_of_the_event_loop,
    pytest_asyncio_loop_factories,
)

__all__ = ["clocks_of_the_event_loop", "pytest_asyncio_loop_factories"]


@pytest.fixture
async def governed() -> AsyncIterator[GovernedServer]:
    server = GovernedServer()
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    yield server
    await runner.cleanup()

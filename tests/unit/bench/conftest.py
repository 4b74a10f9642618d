"""The simulated server as fixtures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from unit.bench.simulated import SimulatedServer, start


@pytest.fixture
async def server() -> AsyncIterator[SimulatedServer]:
    """In the event loop of the test."""
    simulated = SimulatedServer()
    runner = await start(simulated)
    yield simulated
    await runner.cleanup()


@pytest.fixture
def threaded_server() -> Iterator[SimulatedServer]:
    """In a thread with a loop of its own, for tests of the command line."""
    simulated = SimulatedServer()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(simulated), loop).result(10)
    yield simulated
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()

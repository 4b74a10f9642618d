"""asyncio has seen the end of every child process before the event loop of a test closes.

After a hand-over in one process, the guard is a child of the supervisor that gave it away, and the
other one awaits its end. Without this, the loop could close between that end and the moment at
which asyncio's own thread reports it. The fixture is in use wherever it is imported.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest_asyncio

_WITHIN_S = 60.0
_THREAD_NAME = "asyncio-waitpid-"
"""asyncio starts a thread with such a name for each child process."""


@pytest_asyncio.fixture(autouse=True)
async def children_reaped() -> AsyncIterator[None]:
    """Wait for these threads after the test; fails if a child still runs then."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith(_THREAD_NAME):
            await asyncio.to_thread(thread.join, _WITHIN_S)
            assert not thread.is_alive(), "a child process outlives the test"

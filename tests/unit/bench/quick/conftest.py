"""A governed server, in virtual time with real sockets."""

from __future__ import annotations

from unit.bench.governor.conftest import (
    clocks_of_the_event_loop,
    governed,
    pytest_asyncio_loop_factories,
)

__all__ = ["clocks_of_the_event_loop", "governed", "pytest_asyncio_loop_factories"]

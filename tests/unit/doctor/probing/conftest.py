"""The tests of the probe run in virtual time, with real sockets.

Rates, waits and windows are those of a machine that does nothing else.
"""

from __future__ import annotations

from unit.bench.trace.virtual_time import (
    clocks_of_the_event_loop,
    pytest_asyncio_loop_factories,
)

__all__ = ["clocks_of_the_event_loop", "pytest_asyncio_loop_factories"]

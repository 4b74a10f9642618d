"""Measure how late the load generator's own event loop runs, while it sends load.

A load generator that stalls (garbage collection, a paused process, a starved core) sends late and
reads late, and its latencies then describe itself. A timer that wakes every 10 ms sees each stall,
also those in which no request was due.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from paceline.foundation.load.client import Clock

PERIOD_S = 0.01
"""Chosen: 100 wake-ups per second cost less than 1 % of a core."""
STALL_S = 0.1
"""A wake-up later than this is a stall: 100 ms is when people notice a delay."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which the load generator neither sent nor read."""

    start_s: float
    """From the start of the measurement."""
    duration_s: float


@dataclass(slots=True)
class LoopLag:
    """What the timer saw. Times count from `zero_s`."""

    zero_s: float
    lags_s: array[float] = field(default_factory=lambda: array("d"))
    """How late each wake-up was, (num_wakeups,)."""
    stalls: list[Stall] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of this process, all threads."""

    def record(self, expected_s: float, woke_s: float) -> None:
        """A wake-up that was due at `expected_s`, both on the clock."""
        lag_s = max(0.0, woke_s - expected_s)
        self.lags_s.append(lag_s)
        if lag_s >= STALL_S:
            self.stalls.append(Stall(max(0.0, expected_s - self.zero_s), lag_s))


@asynccontextmanager
async def watched_loop(clock: Clock) -> AsyncIterator[LoopLag]:
    """Watch the running event loop while the context lasts."""
    lag = LoopLag(clock())
    cpu_before_s = time.process_time()
    watch = asyncio.create_task(_watch(lag, clock))
    await asyncio.sleep(0)
    try:
        yield lag
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        lag.wall_s = clock() - lag.zero_s
        lag.cpu_s = time.process_time() - cpu_before_s


async def _watch(lag: LoopLag, clock: Clock) -> None:
    while True:
        expected_s = clock() + PERIOD_S
        try:
            await asyncio.sleep(PERIOD_S)
        except asyncio.CancelledError:
            # A stall that lasts until the end has not been recorded by a wake-up.
            if clock() > expected_s:
                lag.record(expected_s, clock())
            raise
        lag.record(expected_s, clock())

"""`DecodingTurns`: large bodies are counted and decoded one at a time; streams are served between.

Decoding holds Python's interpreter lock, so a thread would not shorten the pause of the streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_LARGE_BYTES = 64 * 1024
"""A shorter body is decoded at once: within 1 ms."""
_LEAST_PAUSE_S = 0.002
"""Shorter pauses are added up first: an event loop's timers are no more exact than 1 ms."""


class DecodingTurns:
    """First come, first served."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds."""
        self._clock = clock
        self._lock = asyncio.Lock()
        self._free_at_s = 0.0
        """When the pause after the last large body ends."""

    @asynccontextmanager
    async def turn(self, num_bytes: int) -> AsyncIterator[None]:
        """Enter it to count or decode this many bytes in the block, without an await.

        For decoding, they are those of the decoded form: short text may hold many values.

        After a large body, refused ones included, the event loop serves everything else for as
        long as the block took before the next one gets its turn: many bodies at once slow the
        streams down to half their rate, and pause them no longer than one body does.
        """
        if num_bytes < _LARGE_BYTES:
            yield
            return
        async with self._lock:
            pause_s = self._free_at_s - self._clock()
            if pause_s >= _LEAST_PAUSE_S:
                await asyncio.sleep(pause_s)
            began_s = self._clock()
            try:
                yield
            finally:
                now_s = self._clock()
                self._free_at_s = max(self._free_at_s, now_s) + (now_s - began_s)

"""`DecodingTurns`: large bodies are decoded one at a time, and streams are served between two.

Decoding holds Python's interpreter lock, so a thread would not shorten the pause of the streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_LARGE_BYTES = 64 * 1024
"""A shorter body is decoded at once: within 1 ms."""


class DecodingTurns:
    """First come, first served."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free_at_s = 0.0
        """When the pause after the last large body ends."""

    @asynccontextmanager
    async def turn(self, num_bytes: int) -> AsyncIterator[None]:
        """Enter it to decode a body of this length in the block, without an await.

        After a large body, refused ones included, the event loop serves everything else for as
        long as the block took before the next one gets its turn: many bodies at once slow the
        streams down to half their rate, and pause them no longer than one body does.
        """
        if num_bytes < _LARGE_BYTES:
            yield
            return
        async with self._lock:
            pause_s = self._free_at_s - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
            began_s = time.monotonic()
            try:
                yield
            finally:
                now_s = time.monotonic()
                self._free_at_s = now_s + (now_s - began_s)

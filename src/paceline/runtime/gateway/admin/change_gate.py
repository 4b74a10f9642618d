"""`ChangeGate`: the moment at which no operator's change is under way.

A process that hands over its replicas closes the gate, so that the other one gets every change that
was accepted. A process that takes over opens it when the replicas are its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from paceline.runtime.gateway.http.errors import Refusal, unavailable


class ChangeGate:
    """Counts the changes under way, and refuses others while it is closed."""

    def __init__(self, *, is_open: bool = True, retry_after_s: int = 1) -> None:
        self._is_open = is_open
        self._retry_after_s = retry_after_s
        self._num_under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A block that makes a change. Raises `Refusal` (503) while the gate is closed."""
        if not self._is_open:
            raise Refusal(
                unavailable(
                    "Another process is taking over the replicas at this moment; nothing was "
                    "changed. Send the change again.",
                    self._retry_after_s,
                )
            )
        self._num_under_way += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._num_under_way -= 1
            if not self._num_under_way:
                self._is_idle.set()

    async def close(self) -> None:
        """Refuse changes from here on; returns when those under way have ended."""
        self._is_open = False
        await self._is_idle.wait()

    def open(self) -> None:
        """Allow changes."""
        self._is_open = True

"""`JoinedHead`: send the head of an answer and the first bytes of its body in one write.

uvicorn writes the head separately, and uvloop passes each write to the kernel at once. A write is
the most expensive part of a short answer, and a separate head wakes the client too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class JoinedHead:
    """The transport of one answer: it delays the first write and sends it with the second.

    The delay ends with the current iteration of the event loop. Later writes pass directly.
    """

    __slots__ = ("_flush_soon", "_head", "_transport", "write")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._flush_soon: asyncio.Handle | None = None
        self.write: Callable[[bytes], None] = self._hold

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _hold(self, head: bytes) -> None:
        self._head = head
        self._flush_soon = asyncio.get_running_loop().call_soon(self._flush)
        self.write = self._join

    def _join(self, data: bytes) -> None:
        self._head += data
        self._flush()

    def _flush(self) -> None:
        self.write = self._transport.write
        if self._flush_soon is not None:
            self._flush_soon.cancel()
            self._flush_soon = None
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

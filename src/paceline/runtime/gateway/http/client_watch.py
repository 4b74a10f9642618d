"""`ClientWatch`: cancel the work for a client that closes its connection."""

from __future__ import annotations

import asyncio
from types import TracebackType

from paceline.runtime.gateway.http.asgi import Receive
from paceline.runtime.gateway.http.body import ClientGone


class ClientWatch:
    """An async context manager that ends its block with `ClientGone` when the client leaves.

    The body must already have been read: whatever `receive` returns from now on is discarded. Any
    other cancellation propagates unchanged, as with `asyncio.timeout`.
    """

    __slots__ = ("_has_left", "_num_cancelling", "_receive", "_watcher", "_work")

    _work: asyncio.Task[object]
    _watcher: asyncio.Task[None]

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._has_left = False

    async def __aenter__(self) -> None:
        work = asyncio.current_task()
        assert work is not None
        self._work = work
        self._num_cancelling = work.cancelling()
        self._watcher = asyncio.create_task(self._watch())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        watcher = self._watcher
        del self._watcher  # the traceback of its cancellation refers to this object: no cycle stays
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        if not self._has_left:
            return
        if self._work.uncancel() <= self._num_cancelling and kind is asyncio.CancelledError:
            raise ClientGone from error

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        self._work.cancel()

"""SIGTERM and SIGINT as an event, and a block that the event cancels."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator


class ShutdownEvent(asyncio.Event):
    """Set by the first signal."""

    number: signal.Signals | None = None
    """The first signal."""


@contextlib.contextmanager
def shutdown_signals() -> Iterator[ShutdownEvent]:
    """An event that the first SIGTERM or SIGINT sets. The second one cancels the current task."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    signalled = ShutdownEvent()

    def on_signal(number: signal.Signals) -> None:
        if signalled.is_set():
            main.cancel()
        else:
            signalled.number = number
        signalled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield signalled
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def cancelled_by(event: asyncio.Event) -> AsyncIterator[None]:
    """Cancel the block, and nothing else, when the event is set before the block ends."""

    async def watch() -> None:
        await event.wait()
        timeout.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(None) as timeout:
            watching = asyncio.create_task(watch())
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError:
        if not timeout.expired():
            raise

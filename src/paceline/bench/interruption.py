"""SIGTERM cancels a measurement as Ctrl-C does, so that it can report what it has and clean up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def cancelled_by_sigterm(work: Coroutine[Any, Any, T]) -> T:
    """Await the work; SIGTERM cancels it. Needs the main thread, where Ctrl-C arrives too."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await work
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

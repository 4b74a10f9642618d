"""Ctrl-C and SIGTERM cancel a measurement, so that it can report what it has and clean up.

SIGINT is handled even where the process was started with SIGINT ignored, as shells do in the
background: who sends it to a measurement means it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Await the work; SIGINT and SIGTERM cancel it. Needs the main thread."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        return await work
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

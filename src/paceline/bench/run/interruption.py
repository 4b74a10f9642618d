"""Turn Ctrl-C and SIGTERM into a request to stop, so that a partial report can be written."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets. A second signal cancels the current task.

    Enter it in a task of the main thread's event loop.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

"""Ctrl-C, SIGTERM and SIGHUP end a measurement, so that it can report what it has and clean up.

SIGINT is handled even where the process was started with SIGINT ignored, as shells do in the
background: who sends it to a measurement means it. SIGHUP stays ignored where it was, as under
nohup. Everything here needs a task of the main
thread's event loop.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Await the work; every signal cancels it."""
    with _handled_by(_current_task().cancel):
        return await work


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that the first signal sets. A second signal cancels the current task."""
    task, stop = _current_task(), asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            task.cancel()
        stop.set()

    with _handled_by(on_signal):
        yield stop


@contextmanager
def sigint_ignored() -> Iterator[None]:
    """Ctrl-C has no effect, so that another one does not break off the report. Main thread only."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _handled_by(on_signal: Callable[[], object]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = [number for number in _SIGNALS if not _stays_ignored(number)]
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _stays_ignored(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task

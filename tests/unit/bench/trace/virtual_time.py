"""An event loop in virtual time that carries real sockets.

While a socket is readable or writable, time stands still; otherwise it jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _ReadySelector(selectors.DefaultSelector):
    """Never waits for a timer: the loop's time moves instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            return super().select(None)
        self.loop.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock is `now_s`, which every reading moves by a nanosecond: code that waits until a
    time has come must not wait for ever on a rounding error."""

    now_s = 1000.0

    def __init__(self) -> None:
        selector = _ReadySelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        self.now_s += 1e-9
        return self.now_s


def run_virtually(scenario: Coroutine[Any, Any, T]) -> T:
    """Run the scenario in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)


def now_s() -> float:
    """The virtual time; a clock for what is measured."""
    return asyncio.get_running_loop().time()

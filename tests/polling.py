"""Wait until a condition holds that nothing announces.

The bound only ends a hang: what is waited for comes at once on an idle machine, and within seconds
on one that stops processes. No test measures time with it.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 60.0


async def until(condition: Callable[[], T | Awaitable[T]], within_s: float = LIMIT_S) -> T:
    """Return the first true value of the condition, which may be a coroutine function.

    `TimeoutError` after `within_s`.
    """
    async with asyncio.timeout(within_s):
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            # sleep: the pause between two looks decides nothing
            await asyncio.sleep(0.002)


async def turns_of_the_event_loop(number: int = 50) -> None:
    """Let everything happen that follows from what has been sent, if both ends use this loop.

    Not for what another process or thread does, nor for a timer.
    """
    for _ in range(number):
        await asyncio.sleep(0)


def wait_until(condition: Callable[[], T], within_s: float = LIMIT_S) -> T:
    """`until` for a thread that no event loop needs. `TimeoutError` after `within_s`."""
    ends_s = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > ends_s:
            raise TimeoutError(f"the condition did not hold within {within_s:g} s")
        # sleep: the pause between two looks decides nothing
        time.sleep(0.01)
    return value

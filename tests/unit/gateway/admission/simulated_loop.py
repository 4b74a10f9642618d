"""An event loop in simulated time, for scenarios that would take minutes."""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import Callable, Coroutine
from typing import Any


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Its time jumps to the next timer when no callback is ready."""

    now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready:
            timers = self._scheduled
            if timers and timers[0].cancelled():  # the loop drops it, and waits for the next one
                timers = sorted(timer for timer in timers if not timer.cancelled())
            if timers:
                self.now_s = max(self.now_s, timers[0].when())
        super()._run_once()


def run_simulated(scenario: Coroutine[Any, Any, None]) -> None:
    """Run the scenario in simulated time. Errors that a loop would only log fail the test."""
    loop, faults = SimulatedLoop(), []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        loop.run_until_complete(scenario)
        gc.collect()
    finally:
        loop.close()
    assert not faults


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an `async` test in simulated time."""

    @functools.wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        run_simulated(test(*arguments, **fixtures))

    return run

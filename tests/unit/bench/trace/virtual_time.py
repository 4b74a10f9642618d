"""An event loop in virtual time that carries real sockets.

While a socket is readable or writable, or a thread of the loop's executor works, time stands still;
otherwise it jumps to the next timer.

The async tests of a folder run in virtual time if its conftest imports the hook and the fixture
below; those of a module, if the conftest imports the hook and the module the fixture.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_CLOCKS = ("monotonic", "perf_counter")


class _ReadySelector(selectors.DefaultSelector):
    """Never waits for a timer: the loop's time moves instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None or self.loop.num_in_threads:
            return super().select(None)
        self.loop.now_s += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock is `now_s`, which every reading moves by a nanosecond: code that waits until a
    time has come must not wait for ever on a rounding error."""

    now_s = 1000.0
    num_in_threads = 0

    def __init__(self) -> None:
        selector = _ReadySelector()
        selector.loop = self
        super().__init__(selector)

    def run_in_executor(self, *arguments: Any) -> asyncio.Future[Any]:
        running = super().run_in_executor(*arguments)
        self.num_in_threads += 1
        running.add_done_callback(self._thread_ended)
        return running

    def _thread_ended(self, _: object) -> None:
        self.num_in_threads -= 1

    def time(self) -> float:
        self.now_s += 1e-9
        return self.now_s


def run_virtually(scenario: Coroutine[Any, Any, T]) -> T:
    """Run the scenario in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)


def pytest_asyncio_loop_factories(config: object, item: pytest.Function) -> dict[str, object]:
    """The event loop of an async test: a virtual one if it has the clocks for it."""
    if clocks_of_the_event_loop.__name__ in item.fixturenames:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture(autouse=True, scope="module")
def clocks_of_the_event_loop() -> Iterator[None]:
    """Whatever runs in a virtual loop reads its time; the rest reads the real one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _CLOCKS:
            patch.setattr(time, name, _clock(getattr(time, name)))
        yield


def _clock(real: Callable[[], float]) -> Callable[[], float]:
    def read() -> float:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return real()
        return loop.time() if isinstance(loop, VirtualLoop) else real()

    return read


def now_s() -> float:
    """The virtual time; a clock for what is measured."""
    return asyncio.get_running_loop().time()

"""`StreamTimeout`: a time limit that moves with every chunk of a stream.

Like `asyncio.timeout`, but the limit may be moved thousands of times a second: a move records the
new moment, and only when its one timer fires is the timer set again, for the time that is left.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class StreamTimeout:
    """An async context manager that ends its block with `TimeoutError` when the limit is reached.

    Any other cancellation propagates unchanged, as with `asyncio.timeout`.
    """

    __slots__ = ("_at_s", "_fires_at_s", "_has_expired", "_loop", "_num_cancelling", "_task",
                 "_timer")  # fmt: skip

    _num_cancelling: int
    """How often the task was cancelled before the block began."""
    _fires_at_s: float
    """Set together with the timer."""

    def __init__(self, after_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_expired = False
        self._at_s: float | None = self._loop.time() + after_s

    def move(self, after_s: float) -> None:
        """Set the limit to this many seconds from now."""
        at_s = self._at_s = self._loop.time() + after_s
        if self._timer is None or at_s < self._fires_at_s:
            self._set_timer(at_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until the limit; None while there is none."""
        return None if self._at_s is None else self._at_s - self._loop.time()

    def suspend(self) -> None:
        """There is no limit until it is moved."""
        self._at_s = None

    def expire(self) -> None:
        """End the block now. Unlike `move(0)`, a later move does not take it back."""
        if self._task is not None and not self._has_expired:
            self._has_expired = True
            self._task.cancel()

    async def __aenter__(self) -> StreamTimeout:
        task = self._task = asyncio.current_task()
        assert task is not None
        self._num_cancelling = task.cancelling()
        if self._at_s is not None:
            self._set_timer(self._at_s)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_timer()
        task, self._task = self._task, None
        assert task is not None
        if not self._has_expired:
            return
        if task.uncancel() <= self._num_cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _set_timer(self, at_s: float) -> None:
        self._stop_timer()
        if self._task is not None:
            self._fires_at_s = at_s
            self._timer = self._loop.call_at(at_s, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self._timer = None
        if self._at_s is None or self._task is None:
            return  # `move` sets the timer again
        if self._loop.time() < self._at_s:
            self._set_timer(self._at_s)
        else:
            self.expire()

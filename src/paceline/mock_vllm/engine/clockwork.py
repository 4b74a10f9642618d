"""What moves the engine: the event loop's clock, which faults can stop.

One timer serves all sequences. While stopped, the engine's time stands still, so that after a
pause all goes on as if there had been none.
"""

from __future__ import annotations

import asyncio

from paceline.mock_vllm.engine.engine import Engine, Sequence

_TICK_S = 0.001
"""Wake-ups are at least so far apart, so that many sequences share one. Chosen by hand: a
twentieth of the usual time per token."""


class Clockwork:
    """An engine that runs by itself on the current event loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = 0.0
        self._stopped_at_s: float | None = None
        self._lost_s = 0.0

    def submit(self, sequences: list[Sequence]) -> None:
        now_s = self._now_s()
        for sequence in sequences:
            self.engine.submit(sequence, now_s)
        self._schedule()

    def abort(self, sequences: list[Sequence]) -> None:
        now_s = self._now_s()
        for sequence in sequences:
            self.engine.abort(sequence, now_s)
        self._schedule()

    def hold(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            self.engine.hold(sequence)

    def release(self, sequences: list[Sequence]) -> None:
        now_s = self._now_s()
        for sequence in sequences:
            self.engine.release(sequence, now_s)
        self._schedule()

    def stop(self) -> None:
        """Time stands still; harmless twice."""
        if self._stopped_at_s is None:
            self._stopped_at_s = self._loop.time()
            self.engine.is_stopped = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def go_on(self) -> None:
        if self._stopped_at_s is not None:
            self._lost_s += self._loop.time() - self._stopped_at_s
            self._stopped_at_s = None
            self.engine.is_stopped = False
            self._schedule()

    def _now_s(self) -> float:
        return (self._stopped_at_s or self._loop.time()) - self._lost_s

    def _schedule(self) -> None:
        due_s = self.engine.next_due_s()
        if due_s is None or self._stopped_at_s is not None:
            return
        due_s += self._lost_s
        if self._timer is not None:
            if self._timer_due_s <= due_s:
                return
            self._timer.cancel()
        self._timer_due_s = max(due_s, self._loop.time() + _TICK_S)
        self._timer = self._loop.call_at(self._timer_due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.engine.advance(self._now_s())
        self._schedule()

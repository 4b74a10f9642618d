"""Run the engine on the event loop's clock, which faults can pause.

One timer serves all sequences. While the runner is paused, the engine's time does not advance, so
the engine continues afterwards as if there had been no pause.
"""

from __future__ import annotations

import asyncio

from paceline.testing.mock_vllm.engine.engine import Engine, Sequence

_TICK_S = 0.001
"""Minimum time between wake-ups, so that many sequences share one. Chosen empirically: a twentieth
of the default time per token."""


class EngineRunner:
    """Calls the engine on the current event loop whenever a sequence is due."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = 0.0
        self._paused_at_s: float | None = None
        self._total_paused_s = 0.0

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
        """Stop these sequences only, until `release`."""
        for sequence in sequences:
            self.engine.hold(sequence)

    def release(self, sequences: list[Sequence]) -> None:
        now_s = self._now_s()
        for sequence in sequences:
            self.engine.release(sequence, now_s)
        self._schedule()

    def pause(self) -> None:
        """Stop the engine's time. Does nothing if it is paused."""
        if self._paused_at_s is None:
            self._paused_at_s = self._loop.time()
            self.engine.is_paused = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def resume(self) -> None:
        """Continue the engine's time. Does nothing if it is not paused."""
        if self._paused_at_s is not None:
            self._total_paused_s += self._loop.time() - self._paused_at_s
            self._paused_at_s = None
            self.engine.is_paused = False
            self._schedule()

    def _now_s(self) -> float:
        return (self._paused_at_s or self._loop.time()) - self._total_paused_s

    def _schedule(self) -> None:
        due_s = self.engine.next_due_s()
        if due_s is None or self._paused_at_s is not None:
            return
        due_s += self._total_paused_s
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

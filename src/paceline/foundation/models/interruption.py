"""Ctrl-C and SIGTERM ask the work to stop at its next safe point, so that nothing is half written.

A second signal interrupts at once.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from paceline.foundation.models.values import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class StopRequest:
    """Whether the work has to stop."""

    is_set: bool = False

    def raise_if_set(self) -> None:
        """Raise Interrupted after a signal. Call it where everything finished is on disk."""
        if self.is_set:
            raise Interrupted


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """A request that the first signal sets; the second raises KeyboardInterrupt.

    Needs the main thread.
    """
    stop = StopRequest()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set:
            raise KeyboardInterrupt
        stop.is_set = True

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

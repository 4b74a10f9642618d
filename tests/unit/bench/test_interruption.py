"""Which signals end a measurement."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from paceline.foundation.command_line.interruption import cancelled_by_signals


@pytest.fixture
def _sighup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


async def _hang_up(seconds: float) -> str:
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(seconds)  # sleep: until it is cancelled, or a moment if it is not
    return "completed"


@pytest.mark.usefixtures("_sighup")
def test_the_end_of_the_terminal_cancels() -> None:
    signal.signal(signal.SIGHUP, lambda *_: None)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_by_signals(_hang_up(60)))


@pytest.mark.usefixtures("_sighup")
def test_under_nohup_it_does_not() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert asyncio.run(cancelled_by_signals(_hang_up(0.1))) == "completed"

"""SIGTERM and SIGINT while `paceline serve` runs."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from paceline.runtime.serve.shutdown_signals import cancelled_by, shutdown_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_sets_the_event_and_the_second_cancels(
    number: signal.Signals,
) -> None:
    signalled_once = asyncio.Event()

    async def serve() -> None:
        with shutdown_signals() as signalled:
            os.kill(os.getpid(), number)
            await signalled.wait()
            signalled_once.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    async with asyncio.timeout(60):
        await signalled_once.wait()
        os.kill(os.getpid(), number)
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_event_cancels_the_block_and_nothing_after_it() -> None:
    event, has_finished = asyncio.Event(), False
    asyncio.get_running_loop().call_soon(event.set)
    async with asyncio.timeout(60):
        async with cancelled_by(event):
            await asyncio.Event().wait()
            has_finished = True
        await asyncio.sleep(0)
    assert not has_finished


async def test_a_timeout_inside_the_block_is_not_swallowed() -> None:
    with pytest.raises(TimeoutError):
        async with cancelled_by(asyncio.Event()):
            raise TimeoutError

"""A time limit that moves with every chunk ends a stalled block, and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest

from paceline.gateway.proxy.stream_timeout import StreamTimeout

pytestmark = pytest.mark.asyncio


async def test_the_block_ends_at_its_limit() -> None:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        async with StreamTimeout(0.05):
            await asyncio.sleep(5)
    assert 0.04 <= time.monotonic() - began_s < 2
    await asyncio.sleep(0)  # nothing of the cancellation is left


async def test_a_limit_that_is_moved_on_is_not_reached() -> None:
    async with StreamTimeout(0.03) as limit:
        limit.move(60)
        await asyncio.sleep(0.1)


async def test_the_limit_counts_from_the_last_move() -> None:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        await move_and_sleep(0.03, 0.1, 0.2)
    assert 0.19 <= time.monotonic() - began_s < 2


async def test_a_limit_may_be_moved_to_before_the_first() -> None:
    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        await move_and_sleep(300, 0.05)
    assert time.monotonic() - began_s < 2


async def move_and_sleep(first_s: float, *then_s: float) -> None:
    async with StreamTimeout(first_s) as limit:
        for after_s in then_s:
            limit.move(after_s)
        await asyncio.sleep(5)


async def test_nothing_ends_while_it_is_suspended() -> None:
    async with StreamTimeout(0.03) as limit:
        limit.suspend()
        await asyncio.sleep(0.1)


async def test_a_limit_holds_again_once_it_is_moved() -> None:
    async def work() -> None:
        async with StreamTimeout(0.03) as limit:
            limit.suspend()
            await asyncio.sleep(0.1)
            limit.move(0.03)
            await asyncio.sleep(5)

    began_s = time.monotonic()
    with pytest.raises(TimeoutError):
        await work()
    assert time.monotonic() - began_s < 2


async def test_an_end_from_elsewhere_is_not_taken_back_by_a_later_move() -> None:
    """For example when a send returns in the turn of the loop in which the attempt is cut."""
    can_send = asyncio.Event()

    async def work() -> None:
        async with StreamTimeout(5) as limit:
            asyncio.get_running_loop().call_soon(can_send.set)
            asyncio.get_running_loop().call_soon(limit.expire)
            await can_send.wait()
            limit.move(60)
            await asyncio.sleep(1)
            raise AssertionError("the block has not ended")

    with pytest.raises(TimeoutError):
        await work()


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def work() -> None:
        async with StreamTimeout(5):
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_in_the_moment_of_the_limit_stays_one() -> None:
    async def work() -> None:
        async with StreamTimeout(0.01):
            time.sleep(0.02)  # noqa: ASYNC251 - both come in one turn of the loop
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_timer_is_left_behind() -> None:
    async with StreamTimeout(0.02) as limit:
        limit.move(0.03)
    limit.move(0.01)
    await asyncio.sleep(0.05)

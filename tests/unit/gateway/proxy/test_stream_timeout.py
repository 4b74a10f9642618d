"""A time limit that moves with every chunk ends a stalled block, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paceline.runtime.gateway.proxy.stream_timeout import StreamTimeout
from unit.gateway.admission.simulated_loop import SimulatedLoop, run_simulated, simulated


def now_s() -> float:
    return asyncio.get_running_loop().time()


def ended_after_s(work: Callable[[], Awaitable[None]]) -> float:
    """When the work was ended by its limit, in simulated time."""
    ends_s = list[float]()

    async def scenario() -> None:
        began_s = now_s()
        with pytest.raises(TimeoutError):
            await work()
        ends_s.append(now_s() - began_s)
        await asyncio.sleep(0)  # nothing of the cancellation is left

    run_simulated(scenario())
    return ends_s[0]


async def move_and_sleep(first_s: float, *then_s: float) -> None:
    async with StreamTimeout(first_s) as limit:
        for after_s in then_s:
            limit.move(after_s)
        await asyncio.sleep(1000)


def test_the_block_ends_at_its_limit() -> None:
    assert ended_after_s(lambda: move_and_sleep(5)) == pytest.approx(5)


def test_a_limit_that_is_moved_on_is_not_reached() -> None:
    async def scenario() -> None:
        async with StreamTimeout(3) as limit:
            limit.move(60)
            await asyncio.sleep(10)

    run_simulated(scenario())


def test_the_limit_counts_from_the_last_move() -> None:
    assert ended_after_s(lambda: move_and_sleep(3, 10, 20)) == pytest.approx(20)


def test_a_limit_may_be_moved_to_before_the_first() -> None:
    assert ended_after_s(lambda: move_and_sleep(300, 5)) == pytest.approx(5)


def test_nothing_ends_while_it_is_suspended() -> None:
    async def scenario() -> None:
        async with StreamTimeout(3) as limit:
            limit.suspend()
            await asyncio.sleep(10)

    run_simulated(scenario())


def test_a_limit_holds_again_once_it_is_moved() -> None:
    async def work() -> None:
        async with StreamTimeout(3) as limit:
            limit.suspend()
            await asyncio.sleep(10)
            limit.move(3)
            await asyncio.sleep(1000)

    assert ended_after_s(work) == pytest.approx(13)


def test_an_end_from_elsewhere_is_not_taken_back_by_a_later_move() -> None:
    """For example when a send returns in the turn of the loop in which the attempt is cut."""

    async def work() -> None:
        can_send = asyncio.Event()
        async with StreamTimeout(5) as limit:
            asyncio.get_running_loop().call_soon(can_send.set)
            asyncio.get_running_loop().call_soon(limit.expire)
            await can_send.wait()
            limit.move(60)
            await asyncio.sleep(1)
            raise AssertionError("the block has not ended")

    assert ended_after_s(work) == 0


def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def work() -> None:
        async with StreamTimeout(5):
            await asyncio.sleep(5)

    async def scenario() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_simulated(scenario())


@simulated
async def test_a_cancellation_in_the_moment_of_the_limit_stays_one() -> None:
    async def work() -> None:
        async with StreamTimeout(1):
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            loop.now_s += 2  # both come in one turn of the loop
            loop.call_soon(task.cancel)
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task


def test_no_timer_is_left_behind() -> None:
    """Once the block has ended, not even a move ends anything."""

    async def scenario() -> None:
        async with StreamTimeout(2) as limit:
            limit.move(3)
        limit.move(1)
        await asyncio.sleep(5)

    run_simulated(scenario())

"""At which moment a time limit ends its block, in simulated time, and how many timers it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paceline.runtime.gateway.proxy.stream_timeout import StreamTimeout
from unit.gateway.admission.simulated_loop import SimulatedLoop, run_simulated


def now_s() -> float:
    return asyncio.get_running_loop().time()


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(1000.0):
            await scenario()

    run_simulated(limited())


async def ends_after(first_s: float, steps: Callable[[StreamTimeout], Awaitable[None]]) -> float:
    """Seconds until the block ended."""

    async def block() -> None:
        async with StreamTimeout(first_s) as limit:
            await steps(limit)
            await asyncio.sleep(500.0)

    began_s = now_s()
    with pytest.raises(TimeoutError):
        await block()
    return round(now_s() - began_s, 6)


def test_a_block_ends_at_the_last_moment_set() -> None:
    async def nothing(limit: StreamTimeout) -> None:
        pass

    async def later(limit: StreamTimeout) -> None:
        for _ in range(10):
            await asyncio.sleep(1.0)
            limit.move(4.0)

    async def sooner(limit: StreamTimeout) -> None:
        limit.move(2.0)

    async def suspended(limit: StreamTimeout) -> None:
        limit.suspend()
        await asyncio.sleep(50.0)
        limit.move(3.0)

    async def sooner_than_its_timer(limit: StreamTimeout) -> None:
        limit.move(8.0)
        await asyncio.sleep(1.0)
        limit.move(1.0)

    async def expired(limit: StreamTimeout) -> None:
        await asyncio.sleep(1.0)
        limit.expire()
        limit.move(60.0)
        limit.expire()

    async def scenario() -> None:
        assert await ends_after(5.0, nothing) == 5.0
        assert await ends_after(5.0, later) == 14.0
        assert await ends_after(5.0, sooner) == 2.0
        assert await ends_after(5.0, suspended) == 53.0
        assert await ends_after(5.0, sooner_than_its_timer) == 2.0
        assert await ends_after(5.0, expired) == 1.0

    simulate(scenario)


def test_a_move_to_a_later_moment_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of moves a second: a timer is set when the block begins, and when one has fired."""

    async def scenario() -> None:
        loop, set_at_s = asyncio.get_running_loop(), list[float]()
        call_at, began_s = loop.call_at, now_s()

        def recording(when: float, *arguments: object) -> asyncio.TimerHandle:
            set_at_s.append(when - began_s)
            return call_at(when, *arguments)  # type: ignore[arg-type]

        async with StreamTimeout(5.0) as limit:
            monkeypatch.setattr(loop, "call_at", recording)
            for _ in range(100):
                limit.move(20.0)
            assert set_at_s == []
            monkeypatch.undo()
            await asyncio.sleep(6.0)
            monkeypatch.setattr(loop, "call_at", recording)
            limit.move(19.0)  # to 25 s; the timer, which fired at 5 s, is set to 20 s
            limit.move(15.0)  # to 21 s
            assert set_at_s == []
            limit.move(13.0)  # to 19 s
            assert set_at_s == [19.0]
            monkeypatch.undo()

    simulate(scenario)


def test_after_its_block_a_limit_sets_no_timer() -> None:
    async def scenario() -> None:
        async with StreamTimeout(5.0) as limit:
            limit.suspend()
        limit.move(1.0)
        limit.expire()
        await asyncio.sleep(10.0)

    simulate(scenario)


def test_a_limit_within_a_cancelled_task_is_told_from_the_cancellation() -> None:
    """A task that cleans up after its cancellation may use a limit of its own."""

    async def work() -> str:
        try:
            await asyncio.sleep(100.0)
        except asyncio.CancelledError:
            try:
                async with StreamTimeout(2.0):
                    await asyncio.sleep(100.0)
            except TimeoutError:
                return "timed out"
        return "not cancelled"

    async def scenario() -> None:
        began_s = now_s()
        task = asyncio.ensure_future(work())
        await asyncio.sleep(1.0)
        task.cancel()
        assert await task == "timed out"
        assert now_s() - began_s == pytest.approx(3.0)

    simulate(scenario)


def test_an_error_of_the_block_is_its_own() -> None:
    async def block() -> None:
        async with StreamTimeout(5.0):
            try:
                await asyncio.sleep(100.0)
            finally:
                raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            await block()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    simulate(scenario)


def num_timers() -> int:
    """Timers of the running loop that are still to fire, less that of `simulate`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return sum(not timer.cancelled() for timer in loop._scheduled) - 1


def test_a_block_has_one_timer_and_leaves_none() -> None:
    async def scenario() -> None:
        async with StreamTimeout(5.0) as limit:
            assert num_timers() == 1
            limit.move(2.0)
            assert num_timers() == 1
        assert num_timers() == 0

    simulate(scenario)

"""The queue before the replicas is bounded, first come first served, and loses no slot."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from paceline.runtime.gateway.admission import Overloaded, RefusalReason
from paceline.runtime.gateway.admission.queue import _MAX_FORECASTS
from paceline.runtime.gateway.requests.needs import Needs
from paceline.runtime.gateway.settings import AdmissionSettings
from unit.gateway.admission.observed_queue import ObservedQueue
from unit.gateway.admission.plans import plan
from unit.gateway.admission.simulated_loop import run_simulated, simulated
from unit.gateway.conftest import until


async def test_first_come_first_served() -> None:
    observed, order = ObservedQueue(), list[str]()
    async with observed.full():
        tasks = [observed.enter(order, name) for name in "abcd"]
        await until(lambda: observed.queue.num_waiting == 4)
        assert observed.length == 4
    await asyncio.gather(*tasks)
    assert order == list("abcd")
    observed.assert_empty()


@simulated
async def test_no_request_overtakes_a_waiting_one() -> None:
    observed, order = ObservedQueue(), list[str]()
    async with observed.full():
        first = observed.enter(order, "a", hold_s=0.05)
        await until(lambda: observed.queue.num_waiting == 1)
        observed.num_slots = 2
        second = observed.enter(order, "b")
        await until(lambda: len(order) == 1)
        assert order == ["a"]
    await asyncio.gather(first, second)
    observed.assert_empty()


async def test_a_full_queue_refuses_at_once() -> None:
    observed, order = ObservedQueue(), list[str]()
    async with observed.full():
        tasks = [observed.enter(order, str(index)) for index in range(8)]
        await until(lambda: observed.queue.num_waiting == 8)
        slot = observed.slot(60.0)
        with pytest.raises(Overloaded) as refused:
            slot.__aenter__().send(None)  # refused without suspending
        assert refused.value.reason is RefusalReason.QUEUE_FULL
        assert observed.refused == {RefusalReason.QUEUE_FULL: 1}
    await asyncio.gather(*tasks)
    observed.assert_empty()


async def test_without_a_replica_no_request_waits() -> None:
    observed = ObservedQueue(num_slots=0)
    with pytest.raises(Overloaded) as refused:
        async with observed.slot(60.0):
            pytest.fail("admitted without a replica")
    assert refused.value.reason is RefusalReason.NO_REPLICA
    assert refused.value.retry_after_s == 5


@simulated
async def test_a_wait_that_runs_out_is_refused_too() -> None:
    observed = ObservedQueue(AdmissionSettings(max_queue=8, max_queue_wait_s=5))
    async with observed.full():
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(Overloaded) as refused:
            async with observed.slot(60.0):
                pytest.fail("admitted")
        assert refused.value.reason is RefusalReason.WAITED_TOO_LONG
        waited_s = asyncio.get_running_loop().time() - began_s
        assert waited_s == pytest.approx(5)  # its own deadline is 60 s away
        assert observed.queue.num_waiting == 0
    observed.assert_empty()


@simulated
async def test_a_waiting_request_is_refused_at_its_deadline() -> None:
    observed = ObservedQueue()
    async with observed.full():
        with pytest.raises(Overloaded):
            async with observed.slot(0.05):
                pytest.fail("admitted")
    observed.assert_empty()


@simulated
async def test_waiting_requests_get_the_reason_when_the_last_replica_leaves() -> None:
    observed = ObservedQueue(AdmissionSettings(max_queue_wait_s=0.05))
    async with observed.full():
        task = asyncio.ensure_future(observed.slot(60.0).__aenter__())
        await asyncio.sleep(0)
        assert observed.length == 1
        observed.num_slots = 0
        with pytest.raises(Overloaded) as refused:
            await task
        assert refused.value.reason is RefusalReason.NO_REPLICA


async def test_new_replicas_are_noticed() -> None:
    observed, order = ObservedQueue(), list[str]()
    async with observed.full():
        tasks = [observed.enter(order, name) for name in "ab"]
        await until(lambda: observed.length == 2)
        observed.num_slots = 3
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
    observed.assert_empty()


@simulated
async def test_replicas_that_leave_take_no_slot_back() -> None:
    observed, order = ObservedQueue(num_slots=3), list[str]()
    async with observed.full():
        observed.num_slots = 1
        task = observed.enter(order, "a")
        await asyncio.sleep(5)
        assert observed.queue.num_held == 3
        assert not order
    await task
    observed.assert_empty()


async def test_a_cancelled_request_leaves_the_queue() -> None:
    observed, order = ObservedQueue(), list[str]()
    async with observed.full():
        tasks = [observed.enter(order, name) for name in "abc"]
        await until(lambda: observed.length == 3)
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        assert observed.length == 2
    await asyncio.gather(tasks[0], tasks[2])
    assert order == ["a", "c"]
    observed.assert_empty()


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_a_slot_given_to_a_request_that_is_then_cancelled_is_passed_on(
    is_cancelled_first: bool,
) -> None:
    """Both in one step of the loop, in either order."""
    observed, order = ObservedQueue(), list[str]()
    holder = observed.slot(60.0)
    await holder.__aenter__()
    tasks = [observed.enter(order, name) for name in "ab"]
    await until(lambda: observed.length == 2)
    if is_cancelled_first:
        tasks[0].cancel()
        await holder.__aexit__(None, None, None)
    else:
        await holder.__aexit__(None, None, None)
        tasks[0].cancel()
    await asyncio.wait_for(tasks[1], 60)
    assert order == ["b"]
    assert tasks[0].cancelled()
    observed.assert_empty()


@simulated
async def test_any_order_of_events_keeps_the_counts() -> None:
    """No more slots than capacity, none idle while a request waits, none lost."""
    rng, observed = random.Random(5), ObservedQueue(AdmissionSettings(max_queue=40), num_slots=4)
    order: list[str] = []
    tasks: list[asyncio.Task[None]] = []
    for step in range(1500):
        action = rng.random()
        if action < 0.55:
            tasks.append(observed.enter(order, str(step), hold_s=rng.choice((0, 0, 0.001))))
        elif action < 0.7 and tasks:
            rng.choice(tasks).cancel()
        elif action < 0.8:
            observed.num_slots = rng.randint(1, 6)
        else:
            await asyncio.sleep(rng.choice((0, 0, 0, 0.001)))
        assert observed.queue.num_waiting == observed.length <= 40
        assert observed.queue.num_held <= 6
    observed.num_slots = 4
    ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    others = [end for end in ends if isinstance(end, Exception)]
    assert all(isinstance(end, Overloaded) for end in others)
    assert len(order) > 300
    observed.assert_empty()


@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_a_wait_that_runs_out_at_the_moment_of_a_cancellation_holds_no_slot(
    is_cancelled_first: bool,
) -> None:
    """Both in one step of the loop, in either order. No slot was held, so none is given back."""

    async def scenario() -> None:
        observed = ObservedQueue(AdmissionSettings(max_queue_wait_s=1.0))
        async with observed.full():
            task = asyncio.ensure_future(observed.slot(60.0).__aenter__())
            await asyncio.sleep(0)
            earlier_s = 5e-10 if is_cancelled_first else -5e-10  # within the loop's resolution
            asyncio.get_running_loop().call_later(1.0 - earlier_s, task.cancel)
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert repr(observed.queue) == "AdmissionQueue(num_held=1, num_waiting=0)"
            assert observed.refused.total() == (0 if is_cancelled_first else 1)
        observed.assert_empty()

    run_simulated(scenario())


def test_three_times_the_load_through_the_real_queue() -> None:
    """Known truth: 16 slots of 2 s are 8 answers a second; 24 are offered, in simulated time."""
    rng = random.Random(2)
    ends: Counter[str] = Counter()

    async def request() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(5.0), observed.slot(5.0):
                await asyncio.sleep(rng.uniform(1.0, 3.0))
            ends["good"] += 1
        except TimeoutError:
            ends["missed"] += 1
        except Overloaded as overloaded:
            ends["bad Retry-After"] += not 1 <= overloaded.retry_after_s <= 120
            ends["refused at once" if loop.time() == began_s else "refused late"] += 1

    async def offer() -> None:
        tasks = []
        for _ in range(300 * 24):
            tasks.append(asyncio.ensure_future(request()))
            await asyncio.sleep(rng.expovariate(24.0))
        await asyncio.gather(*tasks)

    observed = ObservedQueue(AdmissionSettings(), num_slots=16)
    run_simulated(offer())
    assert ends["good"] >= 0.95 * 300 * 8
    assert ends["missed"] + ends["refused late"] < 0.01 * ends.total()
    assert ends["bad Retry-After"] == 0
    assert observed.refused.total() == ends["refused at once"] + ends["refused late"]
    observed.assert_empty()


async def test_the_forecast_of_the_kind_that_is_used_most_is_kept() -> None:
    observed = ObservedQueue(num_slots=1)
    busy = plan(needs=Needs(model="busy"))
    for index in range(_MAX_FORECASTS + 10):
        for one in (busy, plan(needs=Needs(model=f"adapter-{index}"))):
            async with observed.queue.slot(one, 60.0):
                pass
        if index == 0:
            first = observed.queue._forecast(busy.needs.kind)
    assert observed.queue._forecast(busy.needs.kind) is first
    assert len(observed.queue._forecasts) == _MAX_FORECASTS


async def test_the_forecast_of_waiting_requests_is_kept() -> None:
    observed = ObservedQueue(num_slots=1)
    waiting = plan(needs=Needs(model="waiting"))

    async def wait() -> None:
        async with observed.queue.slot(waiting, 60.0):
            pass

    async with observed.full():
        task = asyncio.create_task(wait())
        await until(lambda: observed.queue.num_waiting == 1)
        first = observed.queue._forecasts[waiting.needs.kind]
        for index in range(_MAX_FORECASTS + 10):
            observed.queue._forecast(Needs(model=f"adapter-{index}").kind)
        assert observed.queue._forecasts[waiting.needs.kind] is first
        assert len(observed.queue._forecasts) == _MAX_FORECASTS
    await task

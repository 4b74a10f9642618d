"""The bounded queue before the replicas."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from paceline.gateway.admission.queue_forecast import RefusalReason
from paceline.gateway.admission.slots import Admission, Admissions, Overloaded, num_slots_of
from paceline.gateway.replicas import Replica
from paceline.gateway.settings import AdmissionSettings
from unit.gateway.conftest import until


@dataclass
class Door:
    """A queue whose capacity a test may change, and what its observer was told."""

    settings: AdmissionSettings = field(
        default_factory=lambda: AdmissionSettings(max_queue=8, max_queue_wait_s=10)
    )
    num_slots: int = 1
    length: int = 0
    refused: Counter[RefusalReason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.admission = Admission(self.settings, lambda: self.num_slots, self)

    def queue_changed(self, by: int) -> None:
        self.length += by

    def admission_refused(self, reason: RefusalReason) -> None:
        self.refused[reason] += 1

    def enter(self, order: list[str], name: str, hold_s: float = 0.0) -> asyncio.Task[None]:
        """A request that notes when it is let in."""

        async def request() -> None:
            async with self.admission.slot(60.0):
                order.append(name)
                await asyncio.sleep(hold_s)

        return asyncio.ensure_future(request())

    @asynccontextmanager
    async def full(self) -> AsyncIterator[None]:
        """All slots held."""
        slots = [self.admission.slot(60.0) for _ in range(self.num_slots)]
        for slot in slots:
            await slot.__aenter__()
        yield
        for slot in slots:
            await slot.__aexit__(None, None, None)

    def assert_empty(self) -> None:
        assert repr(self.admission) == "Admission(num_held=0, num_waiting=0)"
        assert self.length == 0


async def test_first_come_first_served() -> None:
    door, order = Door(), list[str]()
    async with door.full():
        tasks = [door.enter(order, name) for name in "abcd"]
        await until(lambda: door.admission.num_waiting == 4)
        assert door.length == 4
    await asyncio.gather(*tasks)
    assert order == list("abcd")
    door.assert_empty()


async def test_nobody_overtakes_those_who_wait() -> None:
    door, order = Door(), list[str]()
    async with door.full():
        first = door.enter(order, "a", hold_s=0.05)
        await until(lambda: door.admission.num_waiting == 1)
        door.num_slots = 2
        second = door.enter(order, "b")
        await until(lambda: len(order) == 1)
        assert order == ["a"]
    await asyncio.gather(first, second)
    door.assert_empty()


async def test_a_full_queue_refuses_at_once() -> None:
    door, order = Door(), list[str]()
    async with door.full():
        tasks = [door.enter(order, str(index)) for index in range(8)]
        await until(lambda: door.admission.num_waiting == 8)
        slot = door.admission.slot(60.0)
        with pytest.raises(Overloaded) as refused:
            slot.__aenter__().send(None)  # it does not even suspend
        assert refused.value.reason is RefusalReason.QUEUE_FULL
        assert door.refused == {RefusalReason.QUEUE_FULL: 1}
    await asyncio.gather(*tasks)
    door.assert_empty()


async def test_a_refusal_says_when_to_come_again() -> None:
    overloaded = Overloaded(RefusalReason.WAIT_TOO_LONG, 7)
    problem = overloaded.problem
    assert (problem.status, problem.code) == (503, "overloaded")
    assert (b"retry-after", b"7") in problem.headers()
    assert Overloaded(RefusalReason.NO_REPLICA, 5).problem.code == "engine_unavailable"


async def test_without_a_replica_nobody_waits() -> None:
    door = Door(num_slots=0)
    with pytest.raises(Overloaded) as refused:
        async with door.admission.slot(60.0):
            pytest.fail("let in without a replica")
    assert refused.value.reason is RefusalReason.NO_REPLICA
    assert refused.value.retry_after_s == 5


async def test_a_wait_that_runs_out_is_refused_too() -> None:
    door = Door(AdmissionSettings(max_queue=8, max_queue_wait_s=0.05))
    async with door.full():
        began_s = time.monotonic()
        with pytest.raises(Overloaded) as refused:
            async with door.admission.slot(60.0):
                pytest.fail("let in")
        assert refused.value.reason is RefusalReason.WAITED_TOO_LONG
        assert 0.04 < time.monotonic() - began_s < 1
        assert door.admission.num_waiting == 0
    door.assert_empty()


async def test_a_waiter_whose_deadline_comes_first_is_refused_then() -> None:
    door = Door()
    async with door.full():
        with pytest.raises(Overloaded):
            async with door.admission.slot(0.05):
                pytest.fail("let in")
    door.assert_empty()


async def test_when_the_last_replica_leaves_those_who_wait_are_told_why() -> None:
    door = Door(AdmissionSettings(max_queue_wait_s=0.05))
    async with door.full():
        task = asyncio.ensure_future(door.admission.slot(60.0).__aenter__())
        await until(lambda: door.length == 1)
        door.num_slots = 0
        with pytest.raises(Overloaded) as refused:
            await task
        assert refused.value.reason is RefusalReason.NO_REPLICA


async def test_replicas_that_come_are_noticed() -> None:
    door, order = Door(), list[str]()
    async with door.full():
        tasks = [door.enter(order, name) for name in "ab"]
        await until(lambda: door.length == 2)
        door.num_slots = 3
        await asyncio.wait_for(asyncio.gather(*tasks), 1)
    door.assert_empty()


async def test_replicas_that_leave_take_no_slot_back() -> None:
    door, order = Door(num_slots=3), list[str]()
    async with door.full():
        door.num_slots = 1
        task = door.enter(order, "a")
        await asyncio.sleep(0.15)
        assert door.admission.num_held == 3
        assert not order
    await task
    door.assert_empty()


async def test_a_cancelled_waiter_leaves_no_hole() -> None:
    door, order = Door(), list[str]()
    async with door.full():
        tasks = [door.enter(order, name) for name in "abc"]
        await until(lambda: door.length == 3)
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        assert door.length == 2
    await asyncio.gather(tasks[0], tasks[2])
    assert order == ["a", "c"]
    door.assert_empty()


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_a_slot_given_to_a_waiter_that_is_cancelled_then_is_passed_on(
    is_cancelled_first: bool,
) -> None:
    """Both in one step of the loop, in either order."""
    door, order = Door(), list[str]()
    holder = door.admission.slot(60.0)
    await holder.__aenter__()
    tasks = [door.enter(order, name) for name in "ab"]
    await until(lambda: door.length == 2)
    if is_cancelled_first:
        tasks[0].cancel()
        await holder.__aexit__(None, None, None)
    else:
        await holder.__aexit__(None, None, None)
        tasks[0].cancel()
    await asyncio.wait_for(tasks[1], 1)
    assert order == ["b"]
    assert tasks[0].cancelled()
    door.assert_empty()


async def test_any_order_of_events_keeps_the_counts() -> None:
    """No more slots than capacity, none idle while somebody waits, none lost."""
    rng, door = random.Random(5), Door(AdmissionSettings(max_queue=40), num_slots=4)
    order: list[str] = []
    tasks: list[asyncio.Task[None]] = []
    for step in range(1500):
        action = rng.random()
        if action < 0.55:
            tasks.append(door.enter(order, str(step), hold_s=rng.choice((0, 0, 0.001))))
        elif action < 0.7 and tasks:
            rng.choice(tasks).cancel()
        elif action < 0.8:
            door.num_slots = rng.randint(1, 6)
        else:
            await asyncio.sleep(rng.choice((0, 0, 0, 0.001)))
        assert door.admission.num_waiting == door.length <= 40
        assert door.admission.num_held <= 6
    door.num_slots = 4
    ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    others = [end for end in ends if isinstance(end, Exception)]
    assert all(isinstance(end, Overloaded) for end in others)
    assert len(order) > 300
    door.assert_empty()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Time jumps to the next timer when nothing is left to do."""

    now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.now_s = max(self.now_s, self._scheduled[0].when())
        super()._run_once()


def run_simulated(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it in simulated time; whatever the loop would only log is an error."""
    loop, faults = SimulatedLoop(), []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        loop.run_until_complete(scenario)
        gc.collect()
    finally:
        loop.close()
    assert not faults


@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_a_wait_that_runs_out_in_the_moment_of_a_cancellation_leaves_nothing(
    is_cancelled_first: bool,
) -> None:
    """Both in one step of the loop, in either order. No slot was held, so none is given back."""

    async def scenario() -> None:
        door = Door(AdmissionSettings(max_queue_wait_s=1.0))
        async with door.full():
            task = asyncio.ensure_future(door.admission.slot(60.0).__aenter__())
            await asyncio.sleep(0)
            earlier_s = 5e-10 if is_cancelled_first else -5e-10  # within the loop's resolution
            asyncio.get_running_loop().call_later(1.0 - earlier_s, task.cancel)
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert repr(door.admission) == "Admission(num_held=1, num_waiting=0)"
            assert door.refused.total() == (0 if is_cancelled_first else 1)
        door.assert_empty()

    run_simulated(scenario())


def test_three_times_the_load_through_the_real_queue() -> None:
    """Known truth: 16 slots of 2 s are 8 answers a second; 24 are offered, in simulated time."""
    rng = random.Random(2)
    ends: Counter[str] = Counter()

    async def request() -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(5.0), door.admission.slot(5.0):
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

    door = Door(AdmissionSettings(), num_slots=16)
    run_simulated(offer())
    assert ends["good"] >= 0.95 * 300 * 8
    assert ends["missed"] + ends["refused late"] < 0.01 * ends.total()
    assert ends["bad Retry-After"] == 0
    assert door.refused.total() == ends["refused at once"] + ends["refused late"]
    door.assert_empty()


async def test_models_do_not_wait_for_each_other() -> None:
    slots = {"small": 1, "large": 1}
    door = Door()
    admissions = Admissions(door.settings, lambda model: slots.get(model, 0), door)
    async with admissions.of("large").slot(60.0), admissions.of("small").slot(60.0):
        assert admissions.of("small") is admissions.of("small")


async def test_queues_of_models_that_left_are_dropped() -> None:
    slots = {"old": 1}
    door = Door()
    admissions = Admissions(door.settings, lambda model: slots.get(model, 0), door)
    old = admissions.of("old")
    slots = {"new": 1}
    admissions.of("new")
    assert admissions.of("old") is not old


def test_capacity_is_that_of_the_ready_replicas() -> None:
    replicas = [
        Replica("a", "/a", "tiny", "ready", max_in_flight=4),
        Replica("b", "/b", "tiny", "ready"),
        Replica("c", "/c", "tiny", "starting", max_in_flight=100),
        Replica("d", "/d", "tiny", "draining", max_in_flight=100),
    ]
    assert num_slots_of(replicas, AdmissionSettings(max_in_flight=16)) == 20

"""When the queue acts, to the moment, in simulated time; and what is left after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paceline.runtime.gateway.admission import Overloaded, RefusalReason
from paceline.runtime.gateway.admission.queue import AdmissionQueue
from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.settings import AdmissionSettings
from unit.gateway.admission.observed_queue import ObservedQueue
from unit.gateway.admission.plans import UNDRAFTED, plan
from unit.gateway.admission.several_replicas import Claim, SeveralReplicas
from unit.gateway.admission.simulated_loop import SimulatedLoop, run_simulated


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it in simulated time; a request that is never woken fails the test."""

    async def limited() -> None:
        async with asyncio.timeout(1000.0):
            await scenario()

    run_simulated(limited())


def num_timers() -> int:
    """Timers of the running loop that are still to fire, less that of `simulate`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return sum(not timer.cancelled() for timer in loop._scheduled) - 1


def after(delay_s: float, change: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(delay_s, change)


@pytest.mark.parametrize(("appears_s", "admitted_s"), [(0.05, 0.1), (0.15, 0.2)])
def test_a_new_replica_is_noticed_within_a_tenth_of_a_second(
    appears_s: float, admitted_s: float
) -> None:
    async def scenario() -> None:
        observed, loop = ObservedQueue(), asyncio.get_running_loop()
        async with observed.full():
            began_s = loop.time()
            after(appears_s, lambda: setattr(observed, "num_slots", 2))
            async with observed.slot():
                assert loop.time() - began_s == pytest.approx(admitted_s)
                assert num_timers() == 0

    simulate(scenario)


def test_new_replicas_are_looked_for_until_the_last_request_has_left() -> None:
    async def scenario() -> None:
        observed, order = ObservedQueue(), list[str]()
        async with observed.full():
            leaving, staying = (observed.enter(order, name) for name in "ab")
            await asyncio.sleep(0.05)
            assert num_timers() == 3  # two waits and one look
            leaving.cancel()
            await asyncio.sleep(0)
            assert num_timers() == 2
            observed.num_slots = 2
            await asyncio.sleep(0.06)
            assert order == ["b"]
            assert num_timers() == 0
        await staying

    simulate(scenario)


def test_a_wait_runs_out_at_its_moment() -> None:
    async def scenario() -> None:
        observed, loop = ObservedQueue(), asyncio.get_running_loop()
        async with observed.full():
            for time_left_s, expected_s in ((60.0, 10.0), (3.0, 3.0)):
                began_s = loop.time()
                with pytest.raises(Overloaded) as refused:
                    await observed.slot(time_left_s).__aenter__()
                assert refused.value.reason is RefusalReason.WAITED_TOO_LONG
                assert loop.time() - began_s == pytest.approx(expected_s)
            assert (observed.length, num_timers()) == (0, 0)

    simulate(scenario)


def test_a_request_with_few_sequences_does_not_pass_an_older_one_with_many() -> None:
    """Two slots. Of those that wait, the second needs both."""

    async def scenario() -> None:
        observed, order = ObservedQueue(num_slots=2), list[str]()

        async def request(name: str, num_sequences: int) -> None:
            async with observed.queue.slot(plan(num_sequences), 60.0):
                order.append(name)
                await asyncio.sleep(1.0)

        holders = [observed.slot() for _ in range(2)]
        for holder in holders:
            await holder.__aenter__()
        waiting = [
            asyncio.ensure_future(request(name, num))
            for name, num in (("a", 1), ("b", 2), ("c", 1))
        ]
        await asyncio.sleep(0.25)
        for holder in holders:
            await holder.__aexit__(None, None, None)
            await asyncio.sleep(0.25)
        await asyncio.gather(*waiting)
        assert order == ["a", "b", "c"]
        observed.assert_empty()

    simulate(scenario)


def test_a_refusal_counts_the_sequences_that_wait_before() -> None:
    """One slot of 2 s; three sequences wait, and the refused request counts as one."""

    async def scenario() -> None:
        observed = ObservedQueue(AdmissionSettings(max_queue=1))
        async with observed.slot():
            await asyncio.sleep(2.0)
        async with observed.full():
            waiting = asyncio.ensure_future(observed.queue.slot(plan(3), 60.0).__aenter__())
            await asyncio.sleep(0)
            with pytest.raises(Overloaded) as refused:
                await observed.slot().__aenter__()
            assert refused.value.reason is RefusalReason.QUEUE_FULL
            assert refused.value.retry_after_s == 8
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    simulate(scenario)


@pytest.mark.parametrize("has_left", [False, True])
def test_the_rate_is_learned_from_a_replica_that_has_left_too(has_left: bool) -> None:
    async def scenario() -> None:
        settings = AdmissionSettings(max_queue_wait_s=1.0)
        observed = ObservedQueue(settings)
        async with observed.slot():
            await asyncio.sleep(5.0)
            observed.num_slots = 0 if has_left else 1
        observed.num_slots = 1
        async with observed.full():
            with pytest.raises(Overloaded) as refused:
                observed.slot().__aenter__().send(None)  # at once
            assert refused.value.reason is RefusalReason.WAIT_TOO_LONG

    simulate(scenario)


class NoObserver:
    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None: ...


def queue_before(
    source: SeveralReplicas, settings: AdmissionSettings | None = None
) -> AdmissionQueue[Claim]:
    return AdmissionQueue(settings or AdmissionSettings(), source, NoObserver())


@pytest.mark.parametrize(
    ("name", "reason"),
    [("r0", RefusalReason.WAITED_TOO_LONG), ("r1", RefusalReason.WAIT_TOO_LONG)],
)
def test_a_rate_is_learned_for_all_requests_that_the_replica_could_serve(
    name: str, reason: RefusalReason
) -> None:
    """r0 serves no undrafted requests. What r1 took 5 s for, they would wait for too long."""

    async def scenario() -> None:
        source = SeveralReplicas({"r0": SlotQuota(1, 1), "r1": SlotQuota(1, 1)}, drafting={"r0"})
        queue = queue_before(source, AdmissionSettings(max_queue_wait_s=1.0))
        held = [queue.slot(plan(), 60.0) for _ in range(2)]
        for slot in held:
            await slot.__aenter__()
        with pytest.raises(Overloaded):  # so that undrafted requests are known
            await queue.slot(plan(needs=UNDRAFTED), 60.0).__aenter__()
        await asyncio.sleep(4.0)
        ended = next(slot for slot in held if slot.claim and slot.claim.replica.name == name)
        await ended.__aexit__(None, None, None)
        source.hold("r1", 1 - source.num_held["r1"])
        with pytest.raises(Overloaded) as refused:
            await queue.slot(plan(needs=UNDRAFTED), 60.0).__aenter__()
        assert refused.value.reason is reason

    simulate(scenario)


def test_what_waits_is_demanded_of_every_replica_that_could_serve_it() -> None:
    async def scenario() -> None:
        source = SeveralReplicas({"r0": SlotQuota(4, 0), "r1": SlotQuota(4, 0)}, drafting={"r0"})
        queue = queue_before(source)
        waiting = [
            asyncio.ensure_future(queue.slot(one, 60.0).__aenter__())
            for one in (plan(3), plan(2, needs=UNDRAFTED))
        ]
        await asyncio.sleep(0)
        assert queue.waiting_by_replica() == {"r0": 3, "r1": 5}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert queue.waiting_by_replica() == {}

    simulate(scenario)


def test_the_position_is_that_at_the_replica_with_the_fewest_sequences_per_slot() -> None:
    """Six sequences are spread over 4 + 2 slots, four undrafted ones over the 2 of r1 alone."""

    async def scenario() -> None:
        source = SeveralReplicas({"r0": SlotQuota(4, 0), "r1": SlotQuota(2, 0)}, drafting={"r0"})
        queue = queue_before(source)
        plans = (plan(6), plan(4, needs=UNDRAFTED))
        waiting = [asyncio.ensure_future(queue.slot(one, 60.0).__aenter__()) for one in plans]
        await asyncio.sleep(0)
        new, undrafted = queue.slot(plan(1), 60.0), queue.slot(plan(2, needs=UNDRAFTED), 60.0)
        both, second = source.quotas(plan().needs.kind), source.quotas(UNDRAFTED.kind)
        assert queue._position(new, both, None) == 6 / 6 * 6 + 1
        assert queue._position(undrafted, second, None) == (6 / 6 + 4 / 2) * 2 + 2
        assert queue._position(undrafted, second, 1) == 6 / 6 * 2 + 2
        assert queue._position(new, {}, None) == 1
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    simulate(scenario)


@pytest.mark.parametrize(
    ("num_sequences", "spared", "expected"),
    [
        (4, set(), ["r1"]),
        (5, set(), ["r1"]),
        (4, {"r1"}, ["r0"]),
        (5, {"r1"}, []),
        (9, set(), []),
        (1, {"r0", "r1"}, []),
    ],
)
def test_the_replica_with_the_most_free_slots_among_those_that_are_large_enough_is_spared(
    num_sequences: int, spared: set[str], expected: list[str]
) -> None:
    """r0 has one of 4 slots free, r1 six of 8."""
    source = SeveralReplicas(
        {"r0": SlotQuota(4, 4), "r1": SlotQuota(8, 8)}, num_held={"r0": 3, "r1": 2}
    )
    assert queue_before(source)._spared_for(plan(num_sequences), spared) == expected

"""Every model has a queue of its own, as long as it is served."""

from __future__ import annotations

import asyncio

from paceline.runtime.gateway.admission import AdmissionQueues
from paceline.runtime.gateway.peers import SlotDemand
from unit.gateway.admission.observed_queue import ObservedQueue, OneReplica
from unit.gateway.admission.plans import plan


async def test_models_do_not_wait_for_each_other() -> None:
    observed = ObservedQueue()
    slots = {model: OneReplica(observed) for model in ("small", "large")}
    admissions = AdmissionQueues(observed.settings, slots.__getitem__, observed)
    large, small = admissions.of("large"), admissions.of("small")
    async with large.slot(plan(), 60.0), small.slot(plan(), 60.0):
        assert admissions.of("small") is admissions.of("small")


async def test_queues_of_models_that_left_are_dropped() -> None:
    observed = ObservedQueue()
    slots = {model: OneReplica(observed) for model in ("old", "new")}
    admissions = AdmissionQueues(observed.settings, slots.__getitem__, observed)
    old = admissions.of("old")
    observed.num_slots = 0
    admissions.of("new")
    assert observed.models == ["new"]
    assert admissions.of("old") is not old


async def test_the_demand_counts_sequences_and_the_length_requests() -> None:
    observed = ObservedQueue(num_slots=8)
    source = OneReplica(observed)
    admissions = AdmissionQueues(observed.settings, lambda model: source, observed)
    queue = admissions.of("m")
    async with queue.slot(plan(8), 60.0):
        waiting = asyncio.ensure_future(queue.slot(plan(3), 60.0).__aenter__())
        await asyncio.sleep(0)
        assert admissions.demands({"r0": 8}) == {"r0": SlotDemand(num_held=8, num_waiting=3)}
        assert admissions.queue_lengths() == {"m": 1}
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert admissions.demands({}) == {}
    assert admissions.queue_lengths() == {}


async def test_a_process_may_demand_slots_that_it_does_not_hold_and_the_reverse() -> None:
    observed = ObservedQueue()
    source = OneReplica(observed)
    admissions = AdmissionQueues(observed.settings, lambda model: source, observed)
    async with admissions.of("m").slot(plan(), 60.0):
        waiting = asyncio.ensure_future(admissions.of("m").slot(plan(), 60.0).__aenter__())
        await asyncio.sleep(0)
        assert admissions.demands({"r1": 2}) == {"r0": SlotDemand(0, 1), "r1": SlotDemand(2, 0)}
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_requests_are_admitted_when_the_quotas_have_grown() -> None:
    """At once, before the queue reads the slots by itself."""
    observed, order = ObservedQueue(), list[str]()
    admissions = AdmissionQueues(observed.settings, lambda model: OneReplica(observed), observed)
    observed.queue = admissions.of("m")
    async with observed.full():
        task = observed.enter(order, "a")
        await asyncio.sleep(0)
        observed.num_slots = 2
        admissions.recheck()
        assert observed.queue.num_held == 2
    await task


async def test_a_queue_is_kept_while_it_is_served_or_has_requests() -> None:
    observed = ObservedQueue()
    slots = {model: OneReplica(observed) for model in ("idle", "busy", "new", "newer")}
    admissions = AdmissionQueues(observed.settings, slots.__getitem__, observed)
    idle, busy = admissions.of("idle"), admissions.of("busy")
    admissions.of("new")
    assert admissions.of("idle") is idle
    async with busy.slot(plan(), 60.0):
        observed.num_slots = 0
        admissions.of("newer")
        assert admissions.of("busy") is busy

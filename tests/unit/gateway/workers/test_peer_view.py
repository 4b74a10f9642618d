"""Admission and routing of a worker use the state of its peers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from paceline.runtime.gateway.admission import AdmissionQueues, Overloaded, RefusalReason
from paceline.runtime.gateway.peers import SlotDemand
from paceline.runtime.gateway.proxy.lease import Lease, LeaseTable
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.replica_slots import ReplicaSlots
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import AdmissionSettings, FailureSettings
from paceline.runtime.gateway.workers.messages import PeerState, SlotAllocation
from paceline.runtime.gateway.workers.peer_view import PeerWorkerView
from unit.gateway.admission.plans import plan
from unit.gateway.conftest import FixedReplicas


class IgnoringObserver:
    def of_model(self, model: str) -> IgnoringObserver:
        return self

    def model_left(self, model: str) -> None: ...

    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None: ...


REPLICAS = [Replica(name, f"/{name}.sock", "m", "ready", max_in_flight=8) for name in ("r0", "r1")]


def with_peers(
    max_queue: int = 8, replicas: Sequence[Replica] = REPLICAS[:1]
) -> tuple[AdmissionQueues[Lease], PeerWorkerView, LeaseTable]:
    peers, failures = PeerWorkerView(), FailureSettings()
    settings = AdmissionSettings(max_queue=max_queue, max_queue_wait_s=5)
    breakers = Breakers(failures)
    leases = LeaseTable(breakers, ProgressWatch())
    router = Router(FixedReplicas(replicas), leases, breakers, settings, peers)
    slots = ReplicaSlots("m", router, leases)
    return AdmissionQueues(settings, lambda model: slots, IgnoringObserver(), peers), peers, leases


def demands(admissions: AdmissionQueues[Lease], leases: LeaseTable) -> dict[str, SlotDemand]:
    return admissions.demands({name: cost.num_sequences for name, cost in leases.costs().items()})


async def hold(admissions: AdmissionQueues[Lease]) -> None:
    async with admissions.of("m").slot(plan(), 60.0):
        await asyncio.Event().wait()


async def begin(*works: asyncio.Task[None]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    for work in works:
        assert not work.done()


async def test_a_request_without_a_slot_waits_and_is_admitted_when_the_limit_rises() -> None:
    """Slots held by peers are a reason to wait; a missing replica is a reason to refuse."""
    admissions, peers, leases = with_peers()
    peers.update(PeerState(1, slots={"r0": SlotAllocation(num_slots=8, limit=0, fair_share=4)}))
    holding = [asyncio.create_task(hold(admissions)) for _ in range(3)]
    await begin(*holding)
    assert demands(admissions, leases) == {"r0": SlotDemand(num_held=0, num_waiting=3)}
    peers.update(PeerState(2, slots={"r0": SlotAllocation(num_slots=8, limit=2, fair_share=4)}))
    admissions.recheck()
    await begin(*holding)
    assert demands(admissions, leases) == {"r0": SlotDemand(num_held=2, num_waiting=1)}
    for one in holding:
        one.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert demands(admissions, leases) == {}


async def test_the_queue_limit_counts_requests_that_wait_in_peers() -> None:
    admissions, peers, _ = with_peers(max_queue=3)
    allocation = SlotAllocation(
        num_slots=8, limit=0, fair_share=4, num_waiting_in_peers=2, num_held_by_peers=8
    )
    peers.update(PeerState(1, slots={"r0": allocation}, queue_lengths={"m": 2}))
    first = asyncio.create_task(hold(admissions))
    await begin(first)
    with pytest.raises(Overloaded, match="queue_full"):
        await hold(admissions)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


async def test_routing_counts_sequences_that_peers_hold() -> None:
    admissions, peers, _ = with_peers(replicas=REPLICAS)
    own = SlotAllocation(num_slots=8, limit=4, fair_share=4)
    for held, chosen in (((0, 0), "r0"), ((3, 2), "r1")):
        slots = {
            name: msgspec.structs.replace(own, num_held_by_peers=num)
            for name, num in zip(("r0", "r1"), held, strict=True)
        }
        peers.update(PeerState(1, slots=slots))
        async with admissions.of("m").slot(plan(), 60.0) as slot:
            assert slot.claim is not None
            assert slot.claim.replica.name == chosen


async def test_the_limit_of_one_replica_is_not_used_at_another() -> None:
    admissions, peers, leases = with_peers(replicas=REPLICAS)
    limits = {"r0": 3, "r1": 1}
    slots = {
        name: SlotAllocation(num_slots=8, limit=limit, fair_share=4, num_held_by_peers=8 - limit)
        for name, limit in limits.items()
    }
    peers.update(PeerState(1, slots=slots))
    holding = [asyncio.create_task(hold(admissions)) for _ in range(8)]
    await begin(*holding)
    assert {name: leases.num_sequences(name) for name in limits} == limits
    for one in holding:
        one.cancel()
    await asyncio.gather(*holding, return_exceptions=True)

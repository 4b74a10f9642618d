"""Admission and routing of a worker use the state of its peers."""

from __future__ import annotations

import asyncio

import pytest

from paceline.gateway.admission import AdmissionQueues, Overloaded, RefusalReason
from paceline.gateway.peers import SlotDemand
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.replicas import Replica
from paceline.gateway.requests.needs import Needs
from paceline.gateway.routing.breaker import Breakers
from paceline.gateway.routing.router import Router
from paceline.gateway.routing.stall_detection import ProgressWatch
from paceline.gateway.settings import AdmissionSettings, FailureSettings
from paceline.gateway.workers.messages import PeerState, SlotAllocation
from paceline.gateway.workers.peer_view import PeerWorkerView
from unit.gateway.conftest import FixedReplicas


class IgnoringObserver:
    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None: ...


def with_peers(max_queue: int = 8) -> tuple[AdmissionQueues, PeerWorkerView]:
    peers = PeerWorkerView()
    settings = AdmissionSettings(max_queue=max_queue, max_queue_wait_s=5)
    return AdmissionQueues(settings, lambda model: 8, IgnoringObserver(), peers), peers


async def hold(admissions: AdmissionQueues) -> None:
    async with admissions.of("m").slot(60.0):
        await asyncio.sleep(30)


async def begin(*works: asyncio.Task[None]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    for work in works:
        assert not work.done()


async def test_a_request_without_a_slot_waits_and_is_admitted_when_the_limit_rises() -> None:
    """Slots held by peers are a reason to wait; a missing replica is a reason to refuse."""
    admissions, peers = with_peers()
    peers.update(PeerState(1, slots={"m": SlotAllocation(num_slots=8, limit=0, fair_share=4)}))
    holding = [asyncio.create_task(hold(admissions)) for _ in range(3)]
    await begin(*holding)
    assert admissions.demands() == {"m": SlotDemand(num_held=0, num_waiting=3)}
    peers.update(PeerState(2, slots={"m": SlotAllocation(num_slots=8, limit=2, fair_share=4)}))
    admissions.recheck()
    await begin(*holding)
    assert admissions.demands() == {"m": SlotDemand(num_held=2, num_waiting=1)}
    for one in holding:
        one.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert admissions.demands() == {}


async def test_the_queue_limit_counts_requests_that_wait_in_peers() -> None:
    admissions, peers = with_peers(max_queue=3)
    allocation = SlotAllocation(
        num_slots=8, limit=0, fair_share=4, num_waiting_in_peers=2, num_held_by_peers=8
    )
    peers.update(PeerState(1, slots={"m": allocation}))
    first = asyncio.create_task(hold(admissions))
    await begin(first)
    with pytest.raises(Overloaded, match="queue_full"):
        await hold(admissions)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


def test_routing_counts_requests_that_peers_have_sent() -> None:
    failures = FailureSettings()
    breakers, peers = Breakers(failures), PeerWorkerView()
    leases = LeaseTable(breakers, ProgressWatch(failures, 120, 300))
    replicas = [Replica(name, f"/{name}.sock", "m", "ready") for name in ("r0", "r1")]
    source, settings = FixedReplicas(replicas), AdmissionSettings()
    router = Router(source, leases, breakers, settings, peers)
    assert router.choose("m", Needs()) == replicas[0]
    peers.update(PeerState(1, in_flight={"r0": 3, "r1": 2}))
    assert router.choose("m", Needs()) == replicas[1]

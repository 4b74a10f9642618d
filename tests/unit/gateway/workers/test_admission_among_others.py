"""Does the queue of one process keep to its part of the places?"""

from __future__ import annotations

import asyncio

import pytest

from paceline.gateway.admission.queue_forecast import RefusalReason
from paceline.gateway.admission.slot_quota import Demand
from paceline.gateway.admission.slots import Admissions, Overloaded
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.replicas import Replica
from paceline.gateway.requests.needs import Needs
from paceline.gateway.routing.breaker import Breakers
from paceline.gateway.routing.router import Router
from paceline.gateway.routing.stall_detection import ProgressWatch
from paceline.gateway.settings import AdmissionSettings, FailureSettings
from paceline.gateway.workers.messages import Elsewhere, Part
from paceline.gateway.workers.peer_workers import PeerWorkerView
from unit.gateway.conftest import FixedReplicas


class Silent:
    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None: ...


def among_others(max_queue: int = 8) -> tuple[Admissions, PeerWorkerView]:
    peer_workers = PeerWorkerView()
    settings = AdmissionSettings(max_queue=max_queue, max_queue_wait_s=5)
    return Admissions(settings, lambda model: 8, Silent(), peer_workers), peer_workers


async def hold(admissions: Admissions) -> None:
    async with admissions.of("m").slot(60.0):
        await asyncio.sleep(30)


async def begin(*works: asyncio.Task[None]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    for work in works:
        assert not work.done()


async def test_without_a_place_it_waits_and_goes_in_as_soon_as_it_is_told() -> None:
    """SlotQuota that others hold are no reason to refuse, as no replica would be."""
    admissions, peer_workers = among_others()
    peer_workers.hear(Elsewhere(1, parts={"m": Part(of=8, limit=0, share=4)}))
    holding = [asyncio.create_task(hold(admissions)) for _ in range(3)]
    await begin(*holding)
    assert admissions.demands() == {"m": Demand(num_held=0, num_waiting=3)}
    peer_workers.hear(Elsewhere(2, parts={"m": Part(of=8, limit=2, share=4)}))
    admissions.look_again()
    await begin(*holding)
    assert admissions.demands() == {"m": Demand(num_held=2, num_waiting=1)}
    for one in holding:
        one.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert admissions.demands() == {}


async def test_the_queue_is_as_long_as_all_of_them_make_it() -> None:
    admissions, peer_workers = among_others(max_queue=3)
    part = Part(of=8, limit=0, share=4, num_waiting_elsewhere=2, num_held_elsewhere=8)
    peer_workers.hear(Elsewhere(1, parts={"m": part}))
    first = asyncio.create_task(hold(admissions))
    await begin(first)
    with pytest.raises(Overloaded, match="queue_full"):
        await hold(admissions)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


def test_routing_counts_what_others_have_sent() -> None:
    failures = FailureSettings()
    breakers, peer_workers = Breakers(failures), PeerWorkerView()
    ledger = LeaseTable(breakers, ProgressWatch(failures, 120, 300))
    replicas = [Replica(name, f"/{name}.sock", "m", "ready") for name in ("r0", "r1")]
    source, settings = FixedReplicas(replicas), AdmissionSettings()
    router = Router(source, ledger, breakers, settings, peer_workers)
    assert router.choose("m", Needs()) == replicas[0]
    peer_workers.hear(Elsewhere(1, in_flight={"r0": 3, "r1": 2}))
    assert router.choose("m", Needs()) == replicas[1]

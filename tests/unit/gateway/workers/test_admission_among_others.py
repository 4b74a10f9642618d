"""Does the queue of one process keep to its part of the places?"""

from __future__ import annotations

import asyncio

import pytest

from paceline.gateway.admission import Admissions, Overloaded
from paceline.gateway.admission_forecast import Reason
from paceline.gateway.admission_settings import AdmissionSettings
from paceline.gateway.breaker import Breakers
from paceline.gateway.capabilities import Needs
from paceline.gateway.failure_settings import FailureSettings
from paceline.gateway.lease import Ledger
from paceline.gateway.places import Demand
from paceline.gateway.progress import ProgressWatch
from paceline.gateway.replicas import Replica
from paceline.gateway.routing import Router
from paceline.gateway.workers.messages import Elsewhere, Part
from paceline.gateway.workers.neighbourhood import Neighbourhood

from ..conftest import FixedReplicas  # noqa: TID252


class Silent:
    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: Reason) -> None: ...


def among_others(max_queue: int = 8) -> tuple[Admissions, Neighbourhood]:
    neighbourhood = Neighbourhood()
    settings = AdmissionSettings(max_queue=max_queue, max_queue_wait_s=5)
    return Admissions(settings, lambda model: 8, Silent(), neighbourhood), neighbourhood


async def hold(admissions: Admissions) -> None:
    async with admissions.of("m").slot(60.0):
        await asyncio.sleep(30)


async def begin(*works: asyncio.Task[None]) -> None:
    for _ in range(3):
        await asyncio.sleep(0)
    for work in works:
        assert not work.done()


async def test_without_a_place_it_waits_and_goes_in_as_soon_as_it_is_told() -> None:
    """Places that others hold are no reason to refuse, as no replica would be."""
    admissions, neighbourhood = among_others()
    neighbourhood.hear(Elsewhere(1, parts={"m": Part(of=8, limit=0, share=4)}))
    holding = [asyncio.create_task(hold(admissions)) for _ in range(3)]
    await begin(*holding)
    assert admissions.demands() == {"m": Demand(num_held=0, num_waiting=3)}
    neighbourhood.hear(Elsewhere(2, parts={"m": Part(of=8, limit=2, share=4)}))
    admissions.look_again()
    await begin(*holding)
    assert admissions.demands() == {"m": Demand(num_held=2, num_waiting=1)}
    for one in holding:
        one.cancel()
    await asyncio.gather(*holding, return_exceptions=True)
    assert admissions.demands() == {}


async def test_the_queue_is_as_long_as_all_of_them_make_it() -> None:
    admissions, neighbourhood = among_others(max_queue=3)
    part = Part(of=8, limit=0, share=4, num_waiting_elsewhere=2, num_held_elsewhere=8)
    neighbourhood.hear(Elsewhere(1, parts={"m": part}))
    first = asyncio.create_task(hold(admissions))
    await begin(first)
    with pytest.raises(Overloaded, match="queue_full"):
        await hold(admissions)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


def test_routing_counts_what_others_have_sent() -> None:
    failures = FailureSettings()
    breakers, neighbourhood = Breakers(failures), Neighbourhood()
    ledger = Ledger(breakers, ProgressWatch(failures, 120, 300))
    replicas = [Replica(name, f"/{name}.sock", "m", "ready") for name in ("r0", "r1")]
    source, settings = FixedReplicas(replicas), AdmissionSettings()
    router = Router(source, ledger, breakers, settings, neighbourhood)
    assert router.choose("m", Needs()) == replicas[0]
    neighbourhood.hear(Elsewhere(1, in_flight={"r0": 3, "r1": 2}))
    assert router.choose("m", Needs()) == replicas[1]

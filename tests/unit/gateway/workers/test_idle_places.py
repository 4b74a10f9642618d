"""Does a place that nobody wants come to whoever does? The queues of workers, and their head."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from paceline.gateway.admission.queue_forecast import RefusalReason
from paceline.gateway.admission.slots import Admissions, Overloaded
from paceline.gateway.settings import AdmissionSettings
from paceline.gateway.workers.allotment import Allotment
from paceline.gateway.workers.messages import Elsewhere, Report
from paceline.gateway.workers.peer_workers import PeerWorkerView

LONG_S = 0.1
"""A request; nobody may wait half as long."""


class Refused:
    def __init__(self) -> None:
        self.reasons: list[RefusalReason] = []

    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None:
        self.reasons.append(reason)


class Workers:
    """Their queues, which hear of each other every 10 ms."""

    def __init__(self, num_workers: int, num_slots: int, settings: AdmissionSettings) -> None:
        self.refused = Refused()
        self.num_slots = num_slots
        self._neighbourhoods = [PeerWorkerView() for _ in range(num_workers)]
        self.queues = [
            Admissions(settings, lambda model: num_slots, self.refused, peer_workers)
            for peer_workers in self._neighbourhoods
        ]
        self._allotment = Allotment(num_workers)
        self._number = 0

    def exchange(self) -> None:
        reports = [
            Report(places_heard=peer_workers.last.number, demands=queue.demands())
            for peer_workers, queue in zip(self._neighbourhoods, self.queues, strict=True)
        ]
        self._number += 1
        for place, parts in enumerate(self._allotment.deal({"m": self.num_slots}, reports)):
            self._allotment.told(place, self._number, parts)
            self._neighbourhoods[place].hear(Elsewhere(self._number, parts=parts))
            self.queues[place].look_again()

    async def exchange_often(self) -> None:
        while True:
            self.exchange()
            await asyncio.sleep(0.01)

    async def ask(self, place: int, hold_s: float = LONG_S) -> None:
        async with self.queues[place].of("m").slot(60.0):
            await asyncio.sleep(hold_s)


@asynccontextmanager
async def working(
    num_workers: int, num_slots: int, settings: AdmissionSettings
) -> AsyncIterator[Workers]:
    workers = Workers(num_workers, num_slots, settings)
    exchanging = asyncio.create_task(workers.exchange_often())
    try:
        await asyncio.sleep(0.05)
        yield workers
    finally:
        exchanging.cancel()


IMPATIENT = AdmissionSettings(max_queue_wait_s=LONG_S / 4)
NO_QUEUE = AdmissionSettings(max_queue=0)


@pytest.mark.parametrize("settings", [IMPATIENT, NO_QUEUE])
@pytest.mark.parametrize(("num_workers", "num_slots"), [(2, 1), (4, 2), (4, 8)])
async def test_an_idle_gateway_refuses_nobody_wherever_he_comes(
    settings: AdmissionSettings, num_workers: int, num_slots: int
) -> None:
    """Requests are known to take longer than anybody may wait, but all places are free."""
    async with working(num_workers, num_slots, settings) as workers:
        for _ in range(2):
            for place in range(num_workers):
                await asyncio.gather(*(workers.ask(place) for _ in range(num_slots)))
                await asyncio.sleep(0.05)  # until the others know that it is over
        assert workers.refused.reasons == []


@pytest.mark.parametrize("settings", [IMPATIENT, NO_QUEUE])
async def test_the_last_free_place_goes_to_whoever_wants_it(settings: AdmissionSettings) -> None:
    """The other worker keeps one of eight for itself, as long as nobody wants it."""
    async with working(2, 8, settings) as workers, AsyncExitStack() as held:
        await workers.ask(1)
        for _ in range(8):
            await held.enter_async_context(workers.queues[1].of("m").slot(60.0))
        for place in (0, 1):
            with pytest.raises(Overloaded):
                await workers.ask(place)
        assert len(workers.refused.reasons) == 2


async def test_two_that_want_the_last_place_do_not_both_get_it() -> None:
    """Each sees it idle; who does not get it is refused, later."""
    async with working(2, 1, NO_QUEUE) as workers:
        asking = [asyncio.create_task(workers.ask(place, hold_s=1.0)) for place in (0, 1)]
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(one) for one in told] == [type(None), Overloaded]
        assert workers.refused.reasons == [RefusalReason.QUEUE_FULL]


async def test_who_got_no_idle_place_waits_on_as_anybody_else() -> None:
    async with working(2, 1, AdmissionSettings(max_queue_wait_s=5)) as workers:
        asking = [asyncio.create_task(workers.ask(place, hold_s=0.8)) for place in (0, 1)]
        await asyncio.gather(*asking)
        assert workers.refused.reasons == []


async def test_waiting_for_idle_places_is_not_taken_for_a_mock_vllmg_queue() -> None:
    """Else a worker that often takes others' places would call the gateway overloaded."""
    async with working(2, 1, AdmissionSettings(max_queue_wait_s=0.3)) as workers:
        for _ in range(40):
            await workers.ask(1, hold_s=0.0)
        forecast = workers.queues[1].of("m")._forecast
        assert forecast._waited.total(asyncio.get_running_loop().time()) == 0

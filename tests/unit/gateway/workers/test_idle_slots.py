"""Idle slots reach the worker that needs them: the workers' queues and the slot allocator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from paceline.runtime.gateway.admission import AdmissionQueues, Overloaded, RefusalReason
from paceline.runtime.gateway.proxy.lease import Lease, LeaseTable
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.needs import NeedsKind
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.replica_slots import ReplicaSlots
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import AdmissionSettings, FailureSettings
from paceline.runtime.gateway.workers.messages import PeerState, WorkerReport
from paceline.runtime.gateway.workers.peer_view import PeerWorkerView
from paceline.runtime.gateway.workers.slot_allocator import SlotAllocator
from unit.gateway.admission.plans import plan
from unit.gateway.admission.simulated_loop import simulated
from unit.gateway.conftest import FixedReplicas

LONG_S = 0.1
"""Duration of a request; in these tests no request may wait half as long."""


class Refused:
    def __init__(self) -> None:
        self.reasons: list[RefusalReason] = []

    def of_model(self, model: str) -> Refused:
        return self

    def model_left(self, model: str) -> None: ...

    def queue_changed(self, by: int) -> None: ...

    def admission_refused(self, reason: RefusalReason) -> None:
        self.reasons.append(reason)


def slots_of(num_slots: int, peers: PeerWorkerView) -> Callable[[str], ReplicaSlots[Lease]]:
    """The slots of one replica, r0, in the worker with these peers."""
    failures = FailureSettings()
    breakers = Breakers(failures)
    leases = LeaseTable(breakers, ProgressWatch())
    replica = Replica("r0", "/r0.sock", "m", "ready", max_in_flight=num_slots)
    router = Router(FixedReplicas([replica]), leases, breakers, AdmissionSettings(), peers)
    return lambda model: ReplicaSlots(model, router, leases)


class Workers:
    """The queues of several workers, which exchange their state every 10 ms."""

    def __init__(self, num_workers: int, num_slots: int, settings: AdmissionSettings) -> None:
        self.refused = Refused()
        self.num_slots = num_slots
        self._peer_views = [PeerWorkerView() for _ in range(num_workers)]
        self.queues = [
            AdmissionQueues(settings, slots_of(num_slots, peers), self.refused, peers)
            for peers in self._peer_views
        ]
        self._allocator = SlotAllocator(num_workers)
        self._version = 0

    def exchange(self) -> None:
        reports = [
            WorkerReport(
                peers_version=peers.state.version,
                demands=queue.demands({"r0": queue.of("m").num_held}),
                queue_lengths=queue.queue_lengths(),
            )
            for peers, queue in zip(self._peer_views, self.queues, strict=True)
        ]
        self._version += 1
        allocated = self._allocator.allocate({"r0": self.num_slots}, reports)
        lengths = [sum(report.queue_lengths.values()) for report in reports]
        for worker_index, slots in enumerate(allocated):
            self._allocator.sent(worker_index, self._version, slots)
            in_peers = {"m": sum(lengths) - lengths[worker_index]}
            state = PeerState(self._version, slots=slots, queue_lengths=in_peers)
            self._peer_views[worker_index].update(state)
            self.queues[worker_index].recheck()

    async def exchange_periodically(self) -> None:
        while True:
            self.exchange()
            await asyncio.sleep(0.01)

    async def send(self, worker_index: int, hold_s: float = LONG_S) -> None:
        async with self.queues[worker_index].of("m").slot(plan(), 60.0):
            await asyncio.sleep(hold_s)


@asynccontextmanager
async def working(
    num_workers: int, num_slots: int, settings: AdmissionSettings
) -> AsyncIterator[Workers]:
    workers = Workers(num_workers, num_slots, settings)
    exchanging = asyncio.create_task(workers.exchange_periodically())
    try:
        await asyncio.sleep(0.05)
        yield workers
    finally:
        exchanging.cancel()
        await asyncio.gather(exchanging, return_exceptions=True)


IMPATIENT = AdmissionSettings(max_queue_wait_s=LONG_S / 4)
NO_QUEUE = AdmissionSettings(max_queue=0)


@pytest.mark.parametrize("settings", [IMPATIENT, NO_QUEUE])
@pytest.mark.parametrize(("num_workers", "num_slots"), [(2, 1), (4, 2), (4, 8)])
@simulated
async def test_an_idle_gateway_refuses_no_request_on_any_worker(
    settings: AdmissionSettings, num_workers: int, num_slots: int
) -> None:
    """Requests are known to take longer than any may wait, but all slots are free."""
    async with working(num_workers, num_slots, settings) as workers:
        for _ in range(2):
            for worker_index in range(num_workers):
                await asyncio.gather(*(workers.send(worker_index) for _ in range(num_slots)))
                await asyncio.sleep(0.05)  # until the peers know that these requests have ended
        assert workers.refused.reasons == []


@pytest.mark.parametrize("settings", [IMPATIENT, NO_QUEUE])
@simulated
async def test_the_last_free_slot_goes_to_the_worker_that_wants_it(
    settings: AdmissionSettings,
) -> None:
    """The other worker keeps one of eight slots only while no one else wants it."""
    async with working(2, 8, settings) as workers, AsyncExitStack() as held:
        await workers.send(1)
        for _ in range(8):
            await held.enter_async_context(workers.queues[1].of("m").slot(plan(), 60.0))
        for worker_index in (0, 1):
            with pytest.raises(Overloaded):
                await workers.send(worker_index)
        assert len(workers.refused.reasons) == 2


@simulated
async def test_two_requests_for_the_last_slot_do_not_both_get_it() -> None:
    """Both workers see it idle; the request that does not get it is refused later."""
    async with working(2, 1, NO_QUEUE) as workers:
        sending = [
            asyncio.create_task(workers.send(worker_index, hold_s=1.0)) for worker_index in (0, 1)
        ]
        results = await asyncio.gather(*sending, return_exceptions=True)
        assert [type(one) for one in results] == [type(None), Overloaded]
        assert workers.refused.reasons == [RefusalReason.QUEUE_FULL]


@simulated
async def test_a_request_that_got_no_idle_slot_waits_in_the_normal_queue() -> None:
    async with working(2, 1, AdmissionSettings(max_queue_wait_s=5)) as workers:
        sending = [
            asyncio.create_task(workers.send(worker_index, hold_s=0.8)) for worker_index in (0, 1)
        ]
        await asyncio.gather(*sending)
        assert workers.refused.reasons == []


@simulated
async def test_waiting_for_an_idle_slot_does_not_count_as_queueing() -> None:
    """Otherwise a worker that often uses the idle slots of its peers would report an overload."""
    async with working(2, 1, AdmissionSettings(max_queue_wait_s=0.3)) as workers:
        for _ in range(40):
            await workers.send(1, hold_s=0.0)
        forecast = workers.queues[1].of("m")._forecast(NeedsKind())
        assert forecast._waited.total(asyncio.get_running_loop().time()) == 0

"""Workers share the slots without exceeding them, although their knowledge is always late."""

from __future__ import annotations

import doctest
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from paceline.runtime.gateway.peers import SlotDemand, SlotQuota
from paceline.runtime.gateway.workers import peer_view, slot_allocator
from paceline.runtime.gateway.workers.messages import PeerState, SlotAllocation, WorkerReport
from paceline.runtime.gateway.workers.peer_view import PeerWorkerView, quota_of
from paceline.runtime.gateway.workers.slot_allocator import SlotAllocator, divide_fairly


@dataclass
class OneWorker:
    """A model of admission in one worker; its knowledge arrives in messages."""

    peers: PeerWorkerView = field(default_factory=PeerWorkerView)
    num_held: int = 0
    num_waiting: int = 0
    num_sent: int = 0
    incoming: deque[PeerState] = field(default_factory=deque)
    """Messages not yet read by the worker."""
    outgoing: deque[WorkerReport] = field(default_factory=deque)
    """Reports not yet read by the parent."""

    def admit(self) -> None:
        limit = self.peers.slot_quota("m", 1000).limit
        num_more = max(0, min(self.num_waiting, limit - self.num_held))
        self.num_waiting -= num_more
        self.num_held += num_more

    def read(self) -> None:
        if self.incoming:
            self.peers.update(self.incoming.popleft())
            self.admit()

    def report(self) -> None:
        demands = {"m": SlotDemand(self.num_held, self.num_waiting)}
        version = self.peers.state.version
        self.outgoing.append(WorkerReport(peers_version=version, demands=demands))


class Workers:
    """Several workers and their parent."""

    def __init__(self, num_workers: int, num_slots: int) -> None:
        self.num_slots = num_slots
        self.allocator = SlotAllocator(num_workers)
        self.reports = [WorkerReport()] * num_workers
        self.all = [OneWorker() for _ in range(num_workers)]
        self.exchange(4)

    @property
    def num_held(self) -> int:
        return sum(one.num_held for one in self.all)

    def receive(self, worker_index: int) -> None:
        if self.all[worker_index].outgoing:
            self.reports[worker_index] = self.all[worker_index].outgoing.popleft()

    def send(self) -> None:
        allocated = self.allocator.allocate({"m": self.num_slots}, self.reports)
        for worker_index, (one, slots) in enumerate(zip(self.all, allocated, strict=True)):
            one.num_sent += 1
            one.incoming.append(PeerState(one.num_sent, slots=slots))
            self.allocator.sent(worker_index, one.num_sent, slots)

    def exchange(self, num_times: int) -> None:
        """Deliver all reports and all messages."""
        for _ in range(num_times):
            for worker_index, one in enumerate(self.all):
                one.report()
                self.receive(worker_index)
            self.send()
            for one in self.all:
                one.read()


@pytest.mark.parametrize("module", [slot_allocator, peer_view])
def test_examples_in_docstrings_run(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("wanted", "num_slots", "shares"),
    [
        ([], 8, []),
        ([0, 0], 8, [0, 0]),
        ([3, 4], 8, [3, 4]),  # enough for all
        ([10, 10], 8, [4, 4]),
        ([10, 1, 10], 9, [4, 1, 4]),  # the slots that one does not want are divided
        ([9, 9, 9, 9], 9, [3, 2, 2, 2]),
        ([9, 9, 9], 2, [1, 1, 0]),
    ],
)
def test_shares_are_fair(wanted: list[int], num_slots: int, shares: list[int]) -> None:
    assert divide_fairly(wanted, num_slots) == shares


@pytest.mark.parametrize("num_workers", [2, 3, 4])
def test_a_burst_on_all_workers_of_an_idle_gateway_fills_exactly_the_slots(
    num_workers: int,
) -> None:
    """No worker knows of its peers' requests yet; a limit of `num_slots - held by peers` would
    admit N times as many."""
    workers = Workers(num_workers, num_slots=10)
    for one in workers.all:
        one.num_waiting = 50
        one.admit()
    assert workers.num_held == 10


@pytest.mark.parametrize("num_workers", [2, 3, 4])
def test_a_worker_that_gets_all_requests_uses_all_slots_after_a_few_messages(
    num_workers: int,
) -> None:
    workers = Workers(num_workers, num_slots=64)
    busy = workers.all[1]
    busy.num_waiting = 100
    busy.admit()
    assert busy.num_held == 64 // num_workers
    workers.exchange(3)
    assert busy.num_held == 64


def test_unwanted_slots_are_divided_in_advance() -> None:
    """With 4 of 10 slots wanted, each worker can admit three more requests at once."""
    workers = Workers(2, num_slots=10)
    workers.all[0].num_waiting = 4
    workers.exchange(4)
    limits = [one.peers.slot_quota("m", 1000).limit for one in workers.all]
    assert limits == [7, 3]


def test_a_worker_with_a_queue_gives_up_slots_to_a_worker_that_waits() -> None:
    """Otherwise the first busy worker would keep all slots for as long as it is busy."""
    workers = Workers(2, num_slots=8)
    first, second = workers.all
    first.num_waiting = 1000
    workers.exchange(4)
    assert (first.num_held, second.num_held) == (8, 0)
    second.num_waiting = 1000
    for _ in range(8):
        workers.exchange(1)
        first.num_held -= 1  # one request ends
        first.admit()
    assert (first.num_held, second.num_held) == (4, 4)


@pytest.mark.parametrize("seed", range(40))
def test_the_workers_never_hold_more_requests_than_there_are_slots(seed: int) -> None:
    """Messages are delayed by random times, in both directions and differently for each worker."""
    drawn = random.Random(seed)
    num_workers, num_slots = drawn.randint(2, 4), drawn.randint(4, 40)
    workers = Workers(num_workers, num_slots)
    most = 0
    for _ in range(3000):
        worker_index = drawn.randrange(num_workers)
        one = workers.all[worker_index]
        match drawn.randrange(7):
            case 0:
                one.num_waiting += drawn.randint(1, 10)
            case 1:
                one.num_held = max(0, one.num_held - drawn.randint(1, 5))
            case 2:
                one.report()
            case 3:
                workers.receive(worker_index)
            case 4:
                workers.send()
            case 5:
                one.read()
            case _:
                one.num_waiting //= 2
        one.admit()
        most = max(most, workers.num_held)
    assert most <= num_slots
    assert most >= num_slots * 0.6  # late messages leave some slots unused, but not most


def test_after_a_loss_of_slots_no_request_is_admitted_until_enough_have_ended() -> None:
    workers = Workers(2, num_slots=8)
    for one in workers.all:
        one.num_waiting = 20
    workers.exchange(4)
    assert workers.num_held == 8
    workers.num_slots = 4
    workers.exchange(2)
    for one in workers.all * 2:
        one.num_held -= 1
        one.admit()
    workers.exchange(4)
    assert workers.num_held == 4


def test_the_slots_of_a_dead_worker_go_to_the_others() -> None:
    workers = Workers(2, num_slots=8)
    for one in workers.all:
        one.num_waiting = 20
    workers.exchange(4)
    workers.all[0] = OneWorker()
    workers.reports[0] = WorkerReport()
    workers.allocator.worker_ended(0)
    workers.exchange(4)
    assert [one.num_held for one in workers.all] == [0, 8]


def test_no_free_slot_differs_from_no_replica() -> None:
    """A replica without a free slot has a quota, and the request waits."""
    all_taken = SlotAllocation(8, limit=0, fair_share=4, num_held_by_peers=8)
    assert quota_of(all_taken) == SlotQuota(num_slots=4, limit=0)
    assert quota_of(SlotAllocation(8, limit=4, fair_share=0)).num_slots == 1
    before_first_message = PeerWorkerView().slot_quota("m", 8)
    assert before_first_message == SlotQuota(
        num_slots=1, limit=0, num_reachable=8
    )  # the parent will allocate slots at once


def test_each_worker_knows_how_many_sequences_wait_in_its_peers() -> None:
    reports = [WorkerReport(demands={"m": SlotDemand(0, waiting)}) for waiting in (3, 0, 4)]
    allocated = SlotAllocator(3).allocate({"m": 2}, reports)
    assert [slots["m"].num_waiting_in_peers for slots in allocated] == [4, 7, 3]


def test_each_worker_knows_how_many_slots_no_peer_wants() -> None:
    """It may have all of them soon, whatever its limit is now."""
    reports = [WorkerReport(demands={"m": SlotDemand(*of)}) for of in ((3, 1), (2, 0), (0, 9))]
    allocated = SlotAllocator(3).allocate({"m": 12}, reports)
    reachable = [quota_of(slots["m"]).num_reachable for slots in allocated]
    assert reachable == [12 - 2 - 9, 0, 12 - 4 - 2]

"""Do workers share the places as one gateway would use them, though all they know is old?"""

from __future__ import annotations

import doctest
import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from paceline.gateway.admission.slot_quota import Demand, SlotQuota
from paceline.gateway.workers import allotment, peer_workers
from paceline.gateway.workers.allotment import Allotment, divide
from paceline.gateway.workers.messages import Elsewhere, Part, Report
from paceline.gateway.workers.peer_workers import PeerWorkerView, places_of


@dataclass
class OneWorker:
    """Holds and waits as admission does; what it knows comes by messages."""

    peer_workers: PeerWorkerView = field(default_factory=PeerWorkerView)
    num_held: int = 0
    num_waiting: int = 0
    num_told: int = 0
    coming: deque[Elsewhere] = field(default_factory=deque)
    """Messages on the way to it."""
    going: deque[Report] = field(default_factory=deque)
    """And from it."""

    def let_in(self) -> None:
        limit = self.peer_workers.places("m", 1000).limit
        num_more = max(0, min(self.num_waiting, limit - self.num_held))
        self.num_waiting -= num_more
        self.num_held += num_more

    def read(self) -> None:
        if self.coming:
            self.peer_workers.hear(self.coming.popleft())
            self.let_in()

    def report(self) -> None:
        demands = {"m": Demand(self.num_held, self.num_waiting)}
        heard = self.peer_workers.last.number
        self.going.append(Report(places_heard=heard, demands=demands))


class Workers:
    """Some of them and their head."""

    def __init__(self, num_workers: int, num_slots: int) -> None:
        self.num_slots = num_slots
        self.allotment = Allotment(num_workers)
        self.reports = [Report()] * num_workers
        self.all = [OneWorker() for _ in range(num_workers)]
        self.exchange(4)

    @property
    def num_held(self) -> int:
        return sum(one.num_held for one in self.all)

    def hear(self, place: int) -> None:
        if self.all[place].going:
            self.reports[place] = self.all[place].going.popleft()

    def tell(self) -> None:
        # Workers see 1000 slots all the while, so that a part is not scaled down by what they see.
        dealt = self.allotment.deal({"m": self.num_slots}, self.reports)
        for place, (one, parts) in enumerate(zip(self.all, dealt, strict=True)):
            one.num_told += 1
            part = parts["m"]
            seen = Part(1000, part.limit, part.share, part.num_waiting_elsewhere)
            one.coming.append(Elsewhere(one.num_told, parts={"m": seen}))
            self.allotment.told(place, one.num_told, parts)

    def exchange(self, num_times: int) -> None:
        """Everybody tells and hears everything."""
        for _ in range(num_times):
            for place, one in enumerate(self.all):
                one.report()
                self.hear(place)
            self.tell()
            for one in self.all:
                one.read()


@pytest.mark.parametrize("module", [allotment, peer_workers])
def test_examples_in_docstrings_run(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert (result.attempted, result.failed) == (1, 0)


@pytest.mark.parametrize(
    ("demands", "num_slots", "shares"),
    [
        ([], 8, []),
        ([0, 0], 8, [0, 0]),
        ([3, 4], 8, [3, 4]),  # enough for all
        ([10, 10], 8, [4, 4]),
        ([10, 1, 10], 9, [4, 1, 4]),  # what one does not want is divided
        ([9, 9, 9, 9], 9, [3, 2, 2, 2]),
        ([9, 9, 9], 2, [1, 1, 0]),
    ],
)
def test_shares_are_fair(demands: list[int], num_slots: int, shares: list[int]) -> None:
    assert divide(demands, num_slots) == shares


@pytest.mark.parametrize("num_workers", [2, 3, 4])
def test_a_burst_on_all_of_an_idle_gateway_fills_the_places_and_no_more(num_workers: int) -> None:
    """None of them has heard of the others' requests. A limit of `slots - others` would let in N
    times as many."""
    workers = Workers(num_workers, num_slots=10)
    for one in workers.all:
        one.num_waiting = 50
        one.let_in()
    assert workers.num_held == 10


@pytest.mark.parametrize("num_workers", [2, 3, 4])
def test_one_that_alone_has_requests_comes_to_use_all_places(num_workers: int) -> None:
    workers = Workers(num_workers, num_slots=64)
    busy = workers.all[1]
    busy.num_waiting = 100
    busy.let_in()
    assert busy.num_held == 64 // num_workers
    workers.exchange(3)
    assert busy.num_held == 64


def test_what_nobody_wants_is_ready_for_whoever_comes() -> None:
    """With 4 of 10 places wanted, each has three more to give at once."""
    workers = Workers(2, num_slots=10)
    workers.all[0].num_waiting = 4
    workers.exchange(4)
    limits = [one.peer_workers.places("m", 1000).limit for one in workers.all]
    assert limits == [7, 3]


def test_a_worker_with_a_queue_gives_places_up_to_one_that_waits() -> None:
    """Else the first to be busy would keep them all for as long as it is."""
    workers = Workers(2, num_slots=8)
    first, second = workers.all
    first.num_waiting = 1000
    workers.exchange(4)
    assert (first.num_held, second.num_held) == (8, 0)
    second.num_waiting = 1000
    for _ in range(8):
        workers.exchange(1)
        first.num_held -= 1  # one request ends
        first.let_in()
    assert (first.num_held, second.num_held) == (4, 4)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_and_goes_there_are_never_more_than_there_are_places(seed: int) -> None:
    """Messages are late by any time, each way and for each worker."""
    drawn = random.Random(seed)
    num_workers, num_slots = drawn.randint(2, 4), drawn.randint(4, 40)
    workers = Workers(num_workers, num_slots)
    most = 0
    for _ in range(3000):
        place = drawn.randrange(num_workers)
        one = workers.all[place]
        match drawn.randrange(7):
            case 0:
                one.num_waiting += drawn.randint(1, 10)
            case 1:
                one.num_held = max(0, one.num_held - drawn.randint(1, 5))
            case 2:
                one.report()
            case 3:
                workers.hear(place)
            case 4:
                workers.tell()
            case 5:
                one.read()
            case _:
                one.num_waiting //= 2
        one.let_in()
        most = max(most, workers.num_held)
    assert most <= num_slots
    assert most >= num_slots * 0.6  # and they are used: late messages cost some, not most


def test_when_places_vanish_nobody_is_let_in_until_enough_have_ended() -> None:
    workers = Workers(2, num_slots=8)
    for one in workers.all:
        one.num_waiting = 20
    workers.exchange(4)
    assert workers.num_held == 8
    workers.num_slots = 4
    workers.exchange(2)
    for one in workers.all * 2:
        one.num_held -= 1
        one.let_in()
    workers.exchange(4)
    assert workers.num_held == 4


def test_the_places_of_a_worker_that_died_go_to_the_others() -> None:
    workers = Workers(2, num_slots=8)
    for one in workers.all:
        one.num_waiting = 20
    workers.exchange(4)
    workers.all[0] = OneWorker()
    workers.reports[0] = Report()
    workers.allotment.ended(0)
    workers.exchange(4)
    assert [one.num_held for one in workers.all] == [0, 8]


def test_nothing_to_go_by_is_told_apart_from_places_that_are_all_taken() -> None:
    """Without a replica a request is refused; without a place it waits."""
    all_taken = Part(8, limit=0, share=4, num_held_elsewhere=8)
    assert places_of(all_taken, 8) == SlotQuota(num_slots=4, limit=0)
    assert places_of(Part(8, limit=4, share=4), 0).num_slots == 0
    assert places_of(Part(8, limit=4, share=4), 16).limit == 4
    unheard = PeerWorkerView().places("m", 8)
    assert unheard == SlotQuota(num_slots=1, limit=0, num_reachable=8)  # it hears at once
    assert PeerWorkerView().places("m", 0) == SlotQuota(num_slots=0, limit=0)


def test_each_hears_how_many_wait_elsewhere() -> None:
    """They fill the queue of the gateway, whose length is bounded as a whole."""
    reports = [Report(demands={"m": Demand(0, waiting)}) for waiting in (3, 0, 4)]
    dealt = Allotment(3).deal({"m": 2}, reports)
    assert [parts["m"].num_waiting_elsewhere for parts in dealt] == [4, 7, 3]


def test_each_hears_which_places_are_wanted_nowhere_else() -> None:
    """Those it may have, whatever its limit is now."""
    reports = [Report(demands={"m": Demand(*of)}) for of in ((3, 1), (2, 0), (0, 9))]
    dealt = Allotment(3).deal({"m": 12}, reports)
    reachable = [places_of(parts["m"], 12).num_reachable for parts in dealt]
    assert reachable == [12 - 2 - 9, 0, 12 - 4 - 2]

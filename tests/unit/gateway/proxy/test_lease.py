"""A lease is released once, with one outcome, and at once when its replica hangs."""

from __future__ import annotations

import asyncio

import pytest
from polling import until

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.plan import RequestCost
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState, Ticket
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready", max_model_len=100)
R1 = Replica("r1", "http://host:8000", "tiny", "ready", max_model_len=200)


class Upstream:
    """Counts how often it is closed."""

    num_closed = 0

    def close(self) -> None:
        self.num_closed += 1


class RecordingBreakers(Breakers):
    """Records the outcomes that it receives."""

    def __init__(self) -> None:
        super().__init__(FailureSettings())
        self.ends: list[tuple[str, Outcome]] = []

    def began(self, name: str, now_s: float) -> Ticket:
        return RecordingTicket(super().began(name, now_s), self.ends)


class RecordingTicket(Ticket):
    def __init__(self, ticket: Ticket, ends: list[tuple[str, Outcome]]) -> None:
        for name in Ticket.__slots__:
            setattr(self, name, getattr(ticket, name))
        self._ends = ends

    def ended(self, outcome: Outcome, now_s: float) -> None:
        self._ends.append((self.name, outcome))


def leases_with(breakers: Breakers) -> LeaseTable:
    return LeaseTable(breakers, ProgressWatch())


async def test_a_lease_releases_once_with_its_first_outcome() -> None:
    breakers, upstream = RecordingBreakers(), Upstream()
    leases = leases_with(breakers)
    async with leases.lease(R0) as lease:
        assert leases.num_in_flight("r0") == 1
        lease.own(upstream)
        lease.end(Outcome.BROKEN)
        lease.end(Outcome.CLIENT_GONE)
    assert breakers.ends == [("r0", Outcome.BROKEN)]
    assert (leases.num_in_flight("r0"), upstream.num_closed) == (0, 1)
    assert repr(leases) == "LeaseTable({})"


async def test_a_lease_is_released_by_faults_and_cancellation() -> None:
    breakers = RecordingBreakers()
    leases = leases_with(breakers)

    async def hold() -> None:
        async with leases.lease(R0):
            await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        async with leases.lease(R0):
            _ = 1 / 0
    holding = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    holding.cancel()
    await asyncio.wait([holding])
    assert [outcome for _, outcome in breakers.ends] == [
        Outcome.INTERNAL_ERROR,
        Outcome.SHUT_DOWN,
    ]
    assert repr(leases) == "LeaseTable({})"


async def test_a_replica_found_hung_loses_its_attempts_at_once() -> None:
    breakers, upstreams = RecordingBreakers(), [Upstream(), Upstream()]
    leases = leases_with(breakers)
    async with leases.lease(R0) as one, leases.lease(R0) as two, leases.lease(R1):
        one.own(upstreams[0])
        two.own(upstreams[1])
        one.watch_progress(is_stream=True)
        assert leases.progress().replicas["r0"].num_first == 1
        leases.cut_hung("r0")
        assert [upstream.num_closed for upstream in upstreams] == [1, 1]
        assert leases.breaker_states()["r0"] is BreakerState.OPEN
    assert breakers.ends[1:] == [("r0", Outcome.TIMED_OUT)] * 2


async def test_a_claimed_lease_counts_at_once_and_until_it_is_withdrawn() -> None:
    breakers = RecordingBreakers()
    leases = leases_with(breakers)
    lease = leases.claim(R0, RequestCost(8, 100, 50))
    assert (leases.num_in_flight("r0"), leases.num_sequences("r0")) == (1, 8)
    assert leases.costs() == {"r0": RequestCost(8, 100, 50)}
    lease.withdraw()
    lease.withdraw()
    assert breakers.ends == [("r0", Outcome.CLIENT_GONE)]
    assert leases.costs() == {}
    assert repr(leases) == "LeaseTable({})"


async def test_an_attempt_that_has_begun_cannot_be_withdrawn() -> None:
    breakers = RecordingBreakers()
    leases = leases_with(breakers)
    claimed = leases.claim(R0, RequestCost(2))
    async with claimed as lease, leases.lease(R0, RequestCost(3)):
        lease.withdraw()
        assert leases.num_sequences("r0") == 5
        lease.end(Outcome.COMPLETED)
    lease.withdraw()
    assert breakers.ends[-1] == ("r0", Outcome.COMPLETED)
    assert len(breakers.ends) == 2
    assert leases.costs() == {}


@pytest.mark.parametrize("is_stream", [True, False])
async def test_the_progress_of_an_attempt_is_that_of_its_replica(is_stream: bool) -> None:
    leases = leases_with(RecordingBreakers())
    async with leases.lease(R0) as lease:
        assert leases.progress().replicas == {}
        lease.watch_progress(is_stream=is_stream)
        began = leases.progress().replicas["r0"]
        assert (began.num_first, began.num_whole) == (int(is_stream), int(not is_stream))
        lease.got_bytes()
        got = leases.progress().replicas["r0"]
        assert (got.num_first, got.num_whole, got.num_listening) == (0, 0, 0)
        assert got.bytes_at_s > 0
        lease.sent_bytes()
        assert leases.progress().replicas["r0"].num_listening == 1
    assert leases.progress().replicas["r0"].num_listening == 0


async def test_the_first_bytes_of_a_trial_close_the_breaker() -> None:
    breakers = Breakers(FailureSettings(open_s=0.001))
    leases = leases_with(breakers)
    async with leases.lease(R0) as failing:
        failing.end(Outcome.UNREACHABLE)
    await until(lambda: leases.breaker_states()["r0"] is BreakerState.HALF_OPEN)
    async with leases.lease(R0) as lease:
        assert leases.breaker_states()["r0"] is BreakerState.HALF_OPEN
        assert not lease.has_answered
        lease.answered()
        assert lease.has_answered
        assert leases.breaker_states()["r0"] is BreakerState.CLOSED


async def test_a_cut_ends_the_attempt_wherever_it_is() -> None:
    """The connection is closed when the attempt has ended."""
    breakers, upstream, ended = RecordingBreakers(), Upstream(), list[str]()
    leases = leases_with(breakers)
    async with leases.lease(R0) as lease:
        lease.own(upstream)
        lease.on_cut(lambda: ended.append("ended"))
        assert not lease.is_cut
        lease.cut(Outcome.TIMED_OUT)
        assert lease.is_cut
        assert (ended, upstream.num_closed) == (["ended"], 0)
    assert upstream.num_closed == 1
    assert breakers.ends == [("r0", Outcome.TIMED_OUT)]


async def test_a_cut_before_there_is_a_connection_sets_the_outcome() -> None:
    breakers = RecordingBreakers()
    leases = leases_with(breakers)
    async with leases.lease(R0) as lease:
        lease.cut(Outcome.TIMED_OUT)
    assert breakers.ends == [("r0", Outcome.TIMED_OUT)]


async def test_an_attempt_that_begins_after_the_cut_ends_at_once() -> None:
    """The replica was found hung between the claim of its slot and the attempt."""
    ended = list[str]()
    leases = leases_with(RecordingBreakers())
    async with leases.claim(R0, RequestCost(1)) as lease:
        leases.cut_hung("r0")
        lease.on_cut(lambda: ended.append("ended"))
        assert ended == ["ended"]


async def test_an_answer_that_was_received_to_its_end_is_not_cut() -> None:
    breakers, upstream, ended = RecordingBreakers(), Upstream(), list[str]()
    leases = leases_with(breakers)
    async with leases.lease(R0) as lease:
        lease.own(upstream)
        lease.on_cut(lambda: ended.append("ended"))
        lease.watch_progress(is_stream=True)
        lease.got_bytes()
        lease.sent_bytes()
        lease.received_all()
        assert leases.progress().replicas["r0"].num_listening == 0
        lease.cut(Outcome.TIMED_OUT)
        assert not lease.is_cut
        assert (ended, upstream.num_closed) == ([], 0)
        lease.end(Outcome.COMPLETED)
    assert breakers.ends == [("r0", Outcome.COMPLETED)]


async def test_a_lease_is_used_once() -> None:
    leases = leases_with(RecordingBreakers())
    used = leases.lease(R0)
    async with used:
        with pytest.raises(AssertionError):
            await used.__aenter__()
        with pytest.raises(AssertionError):
            used.open()
    with pytest.raises(AssertionError):
        await used.__aenter__()
    assert repr(leases) == "LeaseTable({})"


async def test_the_table_sums_up_what_is_open() -> None:
    leases = leases_with(RecordingBreakers())
    assert (leases.cost("r0"), leases.num_sequences("r0")) == (RequestCost(0), 0)
    one = leases.claim(R0, RequestCost(8, 100, 50))
    async with leases.lease(R0, RequestCost(2, 10, 5)), leases.lease(R1):
        assert leases.in_flight() == {"r0": 2, "r1": 1}
        assert leases.num_in_flight("r2") == 0
        assert leases.addresses() == {"/run/r0.sock", "http://host:8000"}
        assert leases.costs() == {"r0": RequestCost(10, 110, 55), "r1": RequestCost(1)}
        assert repr(leases) == "LeaseTable({'r0': 2, 'r1': 1})"
        one.withdraw()
        assert leases.cost("r0") == RequestCost(2, 10, 5)
        leases.costs().clear()
        assert leases.num_sequences("r0") == 2
    assert leases.in_flight() == {}


async def test_replicas_that_left_are_forgotten() -> None:
    breakers = RecordingBreakers()
    leases = leases_with(breakers)
    for replica in (R0, R1):
        async with leases.lease(replica) as lease:
            lease.watch_progress(is_stream=True)
    leases.forget(["r1"])
    assert list(leases.progress().replicas) == ["r1"]
    assert list(leases.breaker_states()) == ["r1"]

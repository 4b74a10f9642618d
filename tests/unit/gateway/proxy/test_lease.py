"""A lease is released once, with one outcome, and at once when its replica hangs."""

from __future__ import annotations

import asyncio

import pytest

from paceline.gateway.outcomes import Outcome
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.replicas import Replica
from paceline.gateway.requests.plan import RequestCost
from paceline.gateway.routing.breaker import Breakers, BreakerState, Ticket
from paceline.gateway.routing.stream_progress import ProgressWatch
from paceline.gateway.settings import FailureSettings

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

    def ended(self, ticket: Ticket, outcome: Outcome, now_s: float) -> None:
        self.ends.append((ticket.name, outcome))


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
            await asyncio.sleep(30)

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

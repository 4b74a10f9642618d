"""A request ends two replicas at most, whatever they say before they end, in simulated time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.replica_deaths import ReplicaDeaths
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.proxy.upstream import Liveness
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings
from unit.gateway.admission.simulated_loop import run_simulated

BROKEN = AttemptEnd(Outcome.BROKEN, Problem(503, "x", "engine_unavailable"))
SAID_503 = AttemptEnd(Outcome.ENGINE_ERROR, Problem(503, "x", "engine_unavailable"))
SAID_500 = AttemptEnd(Outcome.ENGINE_ERROR, Problem(500, "x", "engine_error"))
TIMED_OUT = AttemptEnd(Outcome.TIMED_OUT, Problem(504, "x", "engine_timeout"))
BUSY = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "x", "rate_limited"))
REFUSED = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "x", "invalid_value"))
MISDIRECTED = AttemptEnd(Outcome.MISDIRECTED, Problem(503, "x", "engine_misdirected"))
HAD_THE_REQUEST = (BROKEN, SAID_503, SAID_500, TIMED_OUT, BUSY, REFUSED, MISDIRECTED)
NEVER_HAD_IT = tuple(
    AttemptEnd(outcome, Problem(503, "x", "engine_unavailable"))
    for outcome in (Outcome.UNREACHABLE, Outcome.NOT_SENT, Outcome.NOT_CONTINUED)
)


class Fleet:
    """Replicas a, b, …, each of which ends some seconds after the failure of its attempt."""

    def __init__(self, max_deaths: int = 2, *, last: Liveness = Liveness.ENDED) -> None:
        self._last = last
        self._end_at_s: dict[str, float] = {}
        self.now = {name: Replica(name, f"http://{name}", "m", "ready") for name in "abcdef"}
        self.leases = LeaseTable(Breakers(FailureSettings()), ProgressWatch())
        settings = GatewaySettings(failures=FailureSettings(max_replica_deaths=max_deaths))
        self.num_looks = 0
        services = SimpleNamespace(
            settings=settings, source=self, upstreams=self, leases=self.leases
        )
        self.deaths = ReplicaDeaths(cast(GatewayServices, services))

    def replicas(self) -> list[Replica]:
        return list(self.now.values())

    async def liveness(self, replica: Replica, within_s: float) -> Liveness:
        self.num_looks += 1
        ended = asyncio.get_running_loop().time() >= self._end_at_s[replica.name]
        return self._last if ended else Liveness.LIVES

    async def fail(
        self,
        name: str,
        end: AttemptEnd,
        *,
        exits_after_s: float = math.inf,
        has_tokens: bool = False,
    ) -> AttemptEnd:
        self._end_at_s[name] = asyncio.get_running_loop().time() + exits_after_s
        async with self.leases.lease(self.now[name]) as lease:
            if has_tokens:
                lease.answered()
            end = await self.deaths.note_failed(lease, end)
            lease.end(end.outcome)
        return end

    async def num_used(self, end: AttemptEnd, *, exits_after_s: float) -> int:
        """Replicas that get a request which fails everywhere, until it is given up."""
        for num, name in enumerate("abcdef", start=1):
            await self.fail(name, end, exits_after_s=exits_after_s)
            await self.deaths.look_back()
            if self.deaths.num >= 2:
                return num
        return 6


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    run_simulated(scenario())


@pytest.mark.parametrize("last", [Liveness.ENDED, Liveness.SILENT])
@pytest.mark.parametrize("exits_after_s", [0.0, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("end", [BROKEN, SAID_503, SAID_500, TIMED_OUT])
def test_a_request_ends_two_replicas_that_exit_at_once_or_soon_after(
    end: AttemptEnd, exits_after_s: float, last: Liveness
) -> None:
    async def scenario() -> None:
        assert await Fleet(last=last).num_used(end, exits_after_s=exits_after_s) == 2

    simulate(scenario)


@pytest.mark.parametrize("end", HAD_THE_REQUEST)
def test_a_replica_may_end_after_any_answer(end: AttemptEnd) -> None:
    async def scenario() -> None:
        assert await Fleet().num_used(end, exits_after_s=0.0) == 2

    simulate(scenario)


@pytest.mark.parametrize("end", NEVER_HAD_IT)
def test_a_replica_that_never_had_the_request_did_not_end_because_of_it(end: AttemptEnd) -> None:
    async def scenario() -> None:
        fleet = Fleet()
        assert await fleet.num_used(end, exits_after_s=0.0) == 6
        assert fleet.num_looks == 0

    simulate(scenario)


def test_a_stream_that_stalls_after_tokens_counts_although_the_replica_answers() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        for name in "ab":
            end = await fleet.fail(name, TIMED_OUT, has_tokens=True)
            assert not end.is_death, "its other attempts may live"
        assert fleet.deaths.num == 2

    simulate(scenario)


def test_a_silent_replica_counts_where_it_decides_and_keeps_its_breaker() -> None:
    """Before that, it may merely be slow."""

    async def scenario() -> None:
        fleet = Fleet(last=Liveness.SILENT)
        end = await fleet.fail("a", BROKEN, exits_after_s=0.0)
        assert not await fleet.deaths.look_back()
        assert (fleet.deaths.num, end.is_death) == (0, False)
        await fleet.fail("b", BROKEN, exits_after_s=0.0)
        assert await fleet.deaths.look_back()
        assert fleet.deaths.num == 2
        assert set(fleet.leases.breaker_states().values()) == {BreakerState.CLOSED}
        assert (await Fleet().fail("a", BROKEN, exits_after_s=0.0)).is_death

    simulate(scenario)


def test_a_replica_that_failed_minutes_ago_is_not_waited_for() -> None:
    """A proxy that cuts every stream after a minute ends no replica."""

    async def scenario() -> None:
        fleet, loop = Fleet(), asyncio.get_running_loop()
        for name in "abcdef":
            await fleet.fail(name, BROKEN)
            began_s = loop.time()
            await fleet.deaths.look_back()
            assert loop.time() == began_s
            await asyncio.sleep(60)  # sleep: in simulated time
        assert fleet.deaths.num == 0

    simulate(scenario)


def test_replicas_that_live_cost_a_second_at_most_before_the_third() -> None:
    async def scenario() -> None:
        fleet, loop = Fleet(), asyncio.get_running_loop()
        await fleet.fail("a", SAID_503)
        assert not await fleet.deaths.look_back()
        await fleet.fail("b", SAID_503)
        began_s = loop.time()
        assert await fleet.deaths.look_back()
        assert round(loop.time() - began_s, 3) == 1
        assert fleet.deaths.num == 0

    simulate(scenario)


@pytest.mark.parametrize("end", [BUSY, REFUSED])
def test_replicas_that_refused_are_asked_once_and_not_waited_for(end: AttemptEnd) -> None:
    async def scenario() -> None:
        fleet, loop = Fleet(), asyncio.get_running_loop()
        began_s = loop.time()
        for name in "ab":
            await fleet.fail(name, end)
        assert await fleet.deaths.look_back()
        assert (fleet.num_looks, loop.time()) == (2, began_s)

    simulate(scenario)


def test_a_replica_that_was_restarted_meanwhile_ended_unless_that_was_meant() -> None:
    async def scenario() -> None:
        for changes, num in (
            ({"num_restarts": 1}, 2),
            ({"num_restarts": 1, "num_planned_restarts": 1}, 0),
            ({"state": "draining"}, 0),
        ):
            fleet = Fleet()
            for name in "ab":
                fleet.now[name] = replace(fleet.now[name], num_restarts=0)
                await fleet.fail(name, SAID_503)
                fleet.now[name] = replace(fleet.now[name], **changes)  # type: ignore[arg-type]
            await fleet.deaths.look_back()
            assert fleet.deaths.num == num

    simulate(scenario)


def test_one_death_counts_once() -> None:
    async def scenario() -> None:
        fleet = Fleet(max_deaths=3)
        await fleet.fail("a", SAID_503, exits_after_s=0.0)
        await fleet.fail("a", BROKEN, exits_after_s=0.5)
        for _ in range(3):
            await fleet.deaths.look_back()
        assert fleet.deaths.num <= 2

    simulate(scenario)

"""A restart waits for requests, and leaves what operators have set as it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from paceline.runtime.gateway.admin.engine_restarts import EngineRestarts
from paceline.runtime.gateway.fleet import Fleet, FleetConflict
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.settings import FleetSettings
from unit.gateway.conftest import until

READY = Replica("engine-0", "/e.sock", "m", "ready", num_restarts=0)


@dataclass
class Engine:
    """One local engine, and what happens to it."""

    replica: Replica = READY
    num_in_flight: int = 0
    is_sole_user: asyncio.Event = field(default_factory=asyncio.Event)
    restarts: list[str] = field(default_factory=list)

    def replicas(self) -> Sequence[Replica]:
        return [self.replica]

    def restart(self, name: str) -> None:
        self.restarts.append(name)

    def come_back(self) -> None:
        """After a restart or a crash."""
        num_restarts = (self.replica.num_restarts or 0) + 1
        self.replica = replace(self.replica, num_restarts=num_restarts)

    async def wait_until_sole_user(self) -> None:
        await self.is_sole_user.wait()


@contextlib.asynccontextmanager
async def restarting(
    engine: Engine, drain_timeout_s: float = 30
) -> AsyncIterator[tuple[Fleet, EngineRestarts]]:
    """A restart has begun, and no other process has requests on the engine."""
    async with Fleet(FleetSettings(), engine, lambda name: engine.num_in_flight) as fleet:
        restarts = EngineRestarts(
            fleet,
            lambda name: engine.num_in_flight,
            engine.restart,
            drain_timeout_s,
            engine.wait_until_sole_user,
        )
        async with restarts:
            restarts.begin("engine-0")
            await asyncio.sleep(0)
            assert fleet.replicas()[0].state == "ready"  # another process has requests on it
            engine.is_sole_user.set()
            await until(lambda: fleet.replicas()[0].state == "draining")
            yield fleet, restarts
        assert not restarts.names


async def test_an_engine_is_restarted_when_its_requests_have_ended() -> None:
    engine = Engine(num_in_flight=1)
    async with restarting(engine) as (fleet, restarts):
        assert fleet.statuses()[0].reason == "restarts after its requests"
        with pytest.raises(FleetConflict, match="'engine-0' is being restarted already"):
            restarts.begin("engine-0")
        assert (engine.restarts, restarts.names) == ([], ["engine-0"])
        engine.num_in_flight = 0
        await until(lambda: engine.restarts == ["engine-0"])
        assert fleet.replicas()[0].state == "draining"
        engine.come_back()
        await until(lambda: not restarts.names)
        assert fleet.replicas()[0].state == "ready"


async def test_after_the_drain_timeout_it_is_restarted_with_requests() -> None:
    engine = Engine(num_in_flight=1)
    async with restarting(engine, drain_timeout_s=0.05):
        await until(lambda: engine.restarts == ["engine-0"])


@pytest.mark.parametrize("is_draining", [True, False])
async def test_what_an_operator_sets_during_a_restart_holds_after_it(is_draining: bool) -> None:
    """And does not return the engine to service before."""
    engine = Engine()
    async with restarting(engine) as (fleet, restarts):
        fleet.set_draining("engine-0", not is_draining)
        fleet.set_draining("engine-0", is_draining)
        assert fleet.replicas()[0].state == "draining"
        assert fleet.statuses()[0].is_draining is is_draining
        await until(lambda: engine.restarts == ["engine-0"])
        engine.come_back()
        await until(lambda: not restarts.names)
        assert fleet.replicas()[0].state == ("draining" if is_draining else "ready")


async def test_an_engine_that_crashed_during_the_drain_is_not_restarted_again() -> None:
    engine = Engine(num_in_flight=1)
    async with restarting(engine) as (_, restarts):
        engine.come_back()
        engine.num_in_flight = 0
        await until(lambda: not restarts.names)
        assert engine.restarts == []


async def test_a_restart_that_is_given_up_returns_the_engine_to_service() -> None:
    """The gateway stops."""
    engine = Engine(num_in_flight=1)
    async with restarting(engine) as (fleet, _):
        pass
    assert fleet.replicas()[0].state == "ready"

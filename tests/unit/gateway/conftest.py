"""Fixtures: a gateway on free ports in front of a fake engine, on uvloop as in production."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import uvloop
from polling import until

from paceline.runtime.gateway import GatewaySettings, Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.settings import FailureSettings, FleetSettings
from unit.gateway.fake_engine import MODEL, FakeEngine

SETTINGS = GatewaySettings(
    fleet=FleetSettings(load_period_s=3600),  # only requests reach the engines, no load readings
    failures=FailureSettings(max_attempts=1, replica_wait_s=0.1),
    port=0,
    admin_port=0,
    max_body_bytes=100_000,
    body_timeout_s=60,
    first_byte_timeout_s=60,
    stall_timeout_s=60,
    response_timeout_s=60,
    drain_timeout_s=0.3,
    control_timeout_s=60,
)


@dataclass
class FixedReplicas:
    """A source whose replicas a test may replace."""

    current: Sequence[Replica]

    def replicas(self) -> Sequence[Replica]:
        return self.current


@dataclass
class Served:
    """A running gateway, its fake engine, and clients of both ports."""

    gateway: RunningGateway
    engine: FakeEngine
    source: FixedReplicas
    replicas: Sequence[Replica]
    """What the source returns unless a test replaces it."""
    http: httpx.AsyncClient
    admin: httpx.AsyncClient
    counted_before: dict[str, float] = field(default_factory=dict)

    @property
    def num_in_flight(self) -> int:
        return self.gateway.traffic.num_in_flight("r0")

    async def outcomes(self) -> dict[str, float]:
        """Number of this test's requests by outcome, without zeros."""
        counted = {}
        for line in (await self.admin.get("/metrics")).text.splitlines():
            if line.startswith("paceline_requests_total{"):
                outcome = line.split('"')[1]
                count = float(line.split()[-1]) - self.counted_before.get(outcome, 0)
                if count:
                    counted[outcome] = count
        return counted


Serve = Callable[..., AbstractAsyncContextManager[Served]]


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    """The event loop that production uses."""
    return {"uvloop": uvloop.new_event_loop}


@asynccontextmanager
async def start_gateway(**changes: object) -> AsyncIterator[Served]:
    """Start a gateway with `SETTINGS`, changed as given, with its engine and clients."""
    with tempfile.TemporaryDirectory() as folder:
        engine = FakeEngine(Path(folder) / "engine.sock")
        source = FixedReplicas(
            [Replica("r0", str(engine.socket), MODEL, "ready", max_model_len=2048)]
        )
        async with (
            engine,
            serve_gateway(replace(SETTINGS, **changes), source) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
        ):
            yield Served(gateway, engine, source, source.current, http, admin)


@pytest.fixture
def serve() -> Serve:
    return start_gateway


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Served]:
    """One gateway for a whole file."""
    async with start_gateway() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def served(shared: Served) -> Served:
    """The file's gateway, with its engine reset and its outcomes counted from here."""
    shared.source.current = shared.replicas
    await until(lambda: shared.num_in_flight == 0)
    shared.engine.reset()
    shared.counted_before = {}
    shared.counted_before = await shared.outcomes()
    return shared


def chat(**changes: object) -> dict[str, object]:
    """A valid chat request, changed as given."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **changes}

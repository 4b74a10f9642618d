"""A gateway on ports of its own, in front of a fake engine, on the loop that serves in earnest."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
import uvloop

from paceline.gateway import GatewaySettings, Replica, RunningGateway, serve_gateway

from .fake_engine import MODEL, FakeEngine

SETTINGS = GatewaySettings(
    port=0,
    admin_port=0,
    max_body_bytes=100_000,
    body_timeout_s=0.3,
    first_byte_timeout_s=5,
    stall_timeout_s=5,
    response_timeout_s=5,
    drain_timeout_s=0.3,
)


@dataclass
class FixedReplicas:
    """A source whose replicas a test may replace."""

    current: Sequence[Replica]

    def replicas(self) -> Sequence[Replica]:
        return self.current


@dataclass
class Served:
    """A running gateway with what stands behind it and a client before it."""

    gateway: RunningGateway
    engine: FakeEngine
    source: FixedReplicas
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    @property
    def num_in_flight(self) -> int:
        return self.gateway.ledger.num_in_flight("r0")

    async def outcomes(self) -> dict[str, float]:
        """Requests by outcome, those that happened."""
        counted = {}
        for line in (await self.admin.get("/metrics")).text.splitlines():
            if line.startswith("paceline_requests_total{"):
                count = float(line.split()[-1])
                if count:
                    counted[line.split('"')[1]] = count
        return counted


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture(scope="package")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()


@pytest.fixture
def serve() -> Serve:
    """Start a gateway with settings that differ from `SETTINGS` as given."""

    @asynccontextmanager
    async def start(**changes: object) -> AsyncIterator[Served]:
        with tempfile.TemporaryDirectory() as folder:
            engine = FakeEngine(Path(folder) / "engine.sock")
            source = FixedReplicas(
                [Replica("r0", str(engine.socket), MODEL, "ready", max_model_len=2048)]
            )
            async with (
                engine,
                serve_gateway(replace(SETTINGS, **changes), source) as gateway,
                httpx.AsyncClient(base_url=gateway.url, timeout=10) as http,
                httpx.AsyncClient(base_url=gateway.admin_url, timeout=10) as admin,
            ):
                yield Served(gateway, engine, source, http, admin)

    return start


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with serve() as running:
        yield running


def chat(**changes: object) -> dict[str, object]:
    """A valid chat request, changed as given."""
    return {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **changes}


async def until(condition: Callable[[], bool], within_s: float = 2.0) -> None:
    """Wait for something that happens soon."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)

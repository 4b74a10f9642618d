"""The gateway as it is served, in front of the scripted engine."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio
import uvloop

from paceline.gateway import GatewaySettings, Replica, RunningGateway, serve_gateway

from .scripted_engine import MODEL, ScriptedEngine


@dataclass
class OneReplica:
    replica: Replica

    def replicas(self) -> Sequence[Replica]:
        return (self.replica,)


@dataclass
class Served:
    """A gateway and the engine behind it."""

    gateway: RunningGateway
    engine: ScriptedEngine


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    """The loop that serves in earnest."""
    return {"uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    settings = GatewaySettings(port=0, admin_port=0, retry_after_s=1)
    with tempfile.TemporaryDirectory() as folder:
        engine = ScriptedEngine(Path(folder) / "engine.sock")
        replica = Replica("r0", str(engine.socket), MODEL, "ready", max_model_len=2048)
        async with engine, serve_gateway(settings, OneReplica(replica)) as gateway:
            yield Served(gateway, engine)

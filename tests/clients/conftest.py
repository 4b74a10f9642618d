"""A gateway in front of a scripted engine."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest_asyncio
import uvloop

from clients.scripted_engine import MODEL, ScriptedEngine
from paceline.runtime.gateway import GatewaySettings, Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import (
    KeyRecord,
    hash_secret,
    join_key,
    make_key,
    render_line,
)
from paceline.runtime.gateway.settings import KeySettings


@dataclass
class OneReplica:
    replica: Replica

    def replicas(self) -> Sequence[Replica]:
        return (self.replica,)


@dataclass
class Served:
    """A gateway, its engine and an API key."""

    gateway: RunningGateway
    engine: ScriptedEngine
    key: str


def pytest_asyncio_loop_factories(config: object, item: object) -> dict[str, object]:
    """Run the tests on uvloop, as `paceline serve` does."""
    return {"uvloop": uvloop.new_event_loop}


def _write_key(path: Path) -> str:
    """Create a key, as `paceline keys create` does."""
    key_id, secret = make_key()
    record = KeyRecord(
        id=key_id,
        tenant="clients",
        secret_sha256=hash_secret(secret),
        created_at=datetime.now(UTC).replace(microsecond=0),
    )
    change_text(path, lambda _: render_line(record))
    return join_key(key_id, secret)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        keys = KeySettings(file=Path(folder) / "keys")
        key = _write_key(Path(folder) / "keys")
        settings = GatewaySettings(port=0, admin_port=0, retry_after_s=1, keys=keys)
        engine = ScriptedEngine(Path(folder) / "engine.sock")
        replica = Replica("r0", str(engine.socket), MODEL, "ready", max_model_len=2048)
        async with engine, serve_gateway(settings, OneReplica(replica)) as gateway:
            yield Served(gateway, engine, key)

"""A gateway with two workers and one mock replica, with HTTP clients for its ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from polling import until

from paceline.runtime.gateway import RunningGateway, serve_gateway
from paceline.runtime.gateway.settings import FleetSettings, ReplicaEntry
from paceline.testing.mock_vllm import (
    RequestRecord,
    SpawnedMockVllm,
    read_request_log,
    spawn_mock_vllm,
)
from unit.gateway.conftest import FixedReplicas, chat
from unit.gateway.workers.conftest import WORKERS

CHAT = "/v1/chat/completions"


@dataclass
class Running:
    """A gateway with two workers and one mock replica."""

    gateway: RunningGateway
    mock_vllm: SpawnedMockVllm
    request_log: Path
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def metric(self, name: str) -> float:
        for line in (await self.admin.get("/metrics")).text.splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise KeyError(name)

    async def until_completed(self, number: int) -> None:
        """Wait for the count, which rises shortly after the client has read the last byte."""
        name = 'paceline_requests_total{outcome="completed"}'

        async def is_complete() -> bool:
            found = await self.metric(name)
            assert found <= number
            return found == number

        await until(is_complete)

    async def send(self, max_tokens: int = 4) -> int:
        body = chat(model="known", max_tokens=max_tokens, stream=True)
        return (await self.http.post(CHAT, json=body)).status_code

    async def send_many(self, number: int, max_tokens: int = 4) -> list[int]:
        return await asyncio.gather(*(self.send(max_tokens) for _ in range(number)))

    async def until_ready(self) -> None:
        async def is_ready() -> bool:
            return (await self.http.get("/ready")).status_code == 200

        await until(is_ready)

    async def until_removed(self) -> None:
        async def is_removed() -> bool:
            return not (await self.admin.get("/admin/replicas")).json()["replicas"]

        await until(is_removed)

    def records(self) -> list[RequestRecord]:
        return list(read_request_log(self.request_log))


@asynccontextmanager
async def serving(folder: Path, *flags: str, **changes: object) -> AsyncIterator[Running]:
    request_log = folder / "requests.jsonl"
    with spawn_mock_vllm(
        "--model", "known", "--request-log", str(request_log), *flags
    ) as mock_vllm:
        fleet = FleetSettings(
            entries=(ReplicaEntry(url=mock_vllm.url, name="r0", key="s3cret"),),
            poll_period_s=0.1,
            load_period_s=3600,
            warm_up=False,
        )
        settings = replace(WORKERS, fleet=fleet, **changes)
        limits = httpx.Limits(max_keepalive_connections=0)
        async with (
            serve_gateway(settings, FixedReplicas([])) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60, limits=limits) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
        ):
            running = Running(gateway, mock_vllm, request_log, http, admin)
            await running.until_ready()
            yield running


def most_at_once(records: list[RequestRecord]) -> int:
    """Most requests in flight at one moment, on the replica's own clock."""
    changes = [(one.begun_s, 1) for one in records]
    changes += [(one.ended_s, -1) for one in records if one.ended_s is not None]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


async def connect(
    gateway: RunningGateway,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A keep-alive connection that one worker has accepted."""
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert b"alive" in await reader.readuntil(b"}")
    return reader, writer

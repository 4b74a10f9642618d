"""A gateway with remote replicas and short polling periods, with HTTP clients for its ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from paceline.runtime.gateway import FleetSettings, ReplicaEntry, RunningGateway, serve_gateway
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, until

CHAT = "/v1/chat/completions"


FLEET = FleetSettings(
    poll_period_s=0.02,
    poll_timeout_s=60,
    failures_before_down=3,
    load_period_s=0.02,
    dns_period_s=0.02,
    warm_up_timeout_s=60,
)


NO_ENGINES = FixedReplicas([])


@dataclass
class Running:
    """A running gateway, and HTTP clients for its ports."""

    gateway: RunningGateway
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def replicas(self) -> dict[str, dict[str, Any]]:
        listed = (await self.admin.get("/admin/replicas")).json()["replicas"]
        return {replica["name"]: replica for replica in listed}

    def state(self, name: str) -> str | None:
        states = {r.name: r.state for r in self.gateway.fleet.replicas()}
        return states.get(name)

    async def until_state(self, name: str, state: str | None, within_s: float = 60.0) -> None:
        await until(lambda: self.state(name) == state, within_s)


@asynccontextmanager
async def running(
    *entries: ReplicaEntry,
    local: FixedReplicas = NO_ENGINES,
    failures: FailureSettings = SETTINGS.failures,
    probe_port: int | None = None,
    **changes: object,
) -> AsyncIterator[Running]:
    """`changes` are those of the fleet's settings."""
    fleet = replace(FLEET, entries=entries, **changes)
    settings = replace(SETTINGS, fleet=fleet, failures=failures, probe_port=probe_port)
    async with (
        serve_gateway(settings, local) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
        httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
    ):
        yield Running(gateway, http, admin)

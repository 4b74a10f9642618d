"""The gateway serves both ports, also while it has no replicas."""

from __future__ import annotations

import httpx

from paceline.gateway import serve_gateway
from unit.gateway.conftest import SETTINGS, FixedReplicas


async def test_a_gateway_without_replicas_serves_health_and_an_empty_list() -> None:
    async with (
        serve_gateway(SETTINGS, FixedReplicas([])) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        assert (await http.get("/health")).status_code == 200
        assert (await http.get("/ready")).status_code == 503
        assert (await http.get("/v1/models")).json() == {"object": "list", "data": []}

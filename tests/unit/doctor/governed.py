"""A gateway with one governor, whose speed depends on the draft length in a known way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from paceline.operations.doctor.diagnosing import DoctorConfig
from paceline.operations.doctor.probing.settings import ProbeSettings
from unit.bench.governor.governed_server import GovernedServer
from unit.doctor.gateways import page


@dataclass
class GovernedGateway(GovernedServer):
    """Data port and admin port in one. Each token takes `slow_s` at draft length 0, else `fast_s`;
    under the policy goodput the faster of the two."""

    goodput_s: float | None = None
    """Under the policy goodput, instead of `fast_s`."""
    num_reads: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the policy is goodput by a change."""

    def application(self) -> web.Application:
        application = super().application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/admin/replicas", self._replicas)
        return application

    async def rate(self, *block: object) -> float:
        """Tokens/s of a block in the present state, as a machine without other work measures it."""
        await asyncio.sleep(0.02)  # sleep: of virtual time, or however long a block takes
        if self.draft_length == 0:
            return 1 / self.slow_s
        token_s = self.goodput_s if self.policy == "goodput" else None
        return 1 / (token_s or self.fast_s)

    async def _metrics(self, request: web.Request) -> web.Response:
        self.num_reads += 1
        return web.Response(text=page({"engine-0": {}}, self.num_reads))

    async def _replicas(self, request: web.Request) -> web.Response:
        return web.json_response({"replicas": [{"name": "engine-0"}]})

    async def _state(self, request: web.Request) -> web.Response:
        return web.json_response({"replicas": {"engine-0": self.state}})

    async def _change(self, request: web.Request) -> web.Response:
        answer = await super()._change(request)
        if self.policy == "goodput":
            self.changed.set()
        return answer

    def config(
        self, seconds: float = 2.0, *, fixes: bool = False, log: Path | None = None
    ) -> DoctorConfig:
        """Of a visit with a probe of two requests at a time."""
        # Another address of the same server: the admin port is never the data port.
        data_url = URL(self.url).with_host("127.0.0.2")
        return DoctorConfig(
            URL(self.url), seconds, log, None, ProbeSettings(data_url, None, seconds, 2), fixes
        )


@contextlib.asynccontextmanager
async def serving(gateway: GovernedGateway) -> AsyncIterator[GovernedGateway]:
    """Serve until the context ends."""
    server = TestServer(gateway.application(), host="0.0.0.0")
    await server.start_server()
    gateway.url = str(server.make_url("/").with_host("127.0.0.1")).rstrip("/")
    try:
        yield gateway
    finally:
        await server.close()

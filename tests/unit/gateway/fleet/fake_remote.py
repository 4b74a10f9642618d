"""A fake remote server: the fake engine on a TCP port, with health, models and metrics.

Its attributes set how it answers from then on; it counts the requests it gets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from aiohttp import web

from paceline.runtime.gateway.hops import HOPS_HEADER
from unit.gateway.fake_engine import MODEL, FakeEngine


class FakeRemote(FakeEngine):
    """A `FakeEngine` on 127.0.0.1."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(Path("/unused"))
        self.host = host
        self.port = port
        self.health = 200
        """Status of /health; 0 to hang."""
        self.models: list[dict[str, object]] | None = [{"id": MODEL, "max_model_len": 2048}]
        """None: /v1/models does not exist."""
        self.page = "vllm:num_requests_running 3.0\n"
        """The text of /metrics; empty: /metrics does not exist."""
        self.content_encoding: str | None = None
        """Of /metrics: what it sends is not compressed."""
        self.is_endless = False
        """Whether /metrics never ends."""
        self.health_text = ""
        """The body of /health."""
        self.health_headers: dict[str, str] = {}
        self.leads_back = False
        """Whether /health answers as the gateway that asks does."""
        self.version: str | None = None
        """None: /version does not exist."""
        self.hangs_at_version = False
        self.key: str | None = None
        """Required under /v1 only, as in vLLM."""
        self.has_completions = True
        self.redirect: str | None = None
        """Target of a redirect from /health."""
        self.num_requests: Counter[str] = Counter()
        """By path."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def __aenter__(self) -> FakeRemote:
        self.reset()
        app = web.Application(middlewares=[self._guard])
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/completions", self._answer)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/version", self._version)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    @web.middleware
    async def _guard(self, request: web.Request, handler: object) -> web.StreamResponse:
        self.num_requests[request.path] += 1
        is_open = self.key is None or not request.path.startswith("/v1")
        if not is_open and request.headers.get("authorization") != f"Bearer {self.key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        if request.path == "/v1/completions" and not self.has_completions:
            raise web.HTTPNotFound
        return await handler(request)  # type: ignore[operator]

    async def _health(self, request: web.Request) -> web.Response:
        if self.redirect is not None:
            raise web.HTTPTemporaryRedirect(self.redirect + "/health")
        if self.health == 0:
            await asyncio.Event().wait()
        if self.leads_back:
            return web.Response(status=508, headers={HOPS_HEADER: request.headers[HOPS_HEADER]})
        return web.Response(status=self.health, text=self.health_text, headers=self.health_headers)

    async def _models(self, request: web.Request) -> web.Response:
        if self.models is None:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": self.models})

    async def _version(self, request: web.Request) -> web.Response:
        if self.hangs_at_version:
            await asyncio.Event().wait()
        if self.version is None:
            raise web.HTTPNotFound
        return web.json_response({"version": self.version})

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if not self.page:
            raise web.HTTPNotFound
        if self.is_endless:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"a 1\n" * 16_384)
        response = web.Response(body=self.page.encode(errors="surrogateescape"))
        if self.content_encoding is not None:
            response.headers["content-encoding"] = self.content_encoding
        return response

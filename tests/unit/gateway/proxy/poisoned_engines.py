"""`fleet`: a gateway over engines that fail some requests, in ways that a test chooses."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from aiohttp import web

from paceline.runtime.gateway import Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.proxy import replica_deaths
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, chat
from unit.gateway.fake_engine import MODEL, FakeEngine
from unit.gateway.proxy.engine_pair import CHAT, ROLE, delta, sse

POISON = "POISON"
"""A prompt with this word is failed."""
FAILURES = FailureSettings(min_samples=4, replica_wait_s=0.05, open_s=100, max_open_s=100)
"""Once open, a breaker stays open for the test."""

TOKEN = {**delta("def ", [7])}
TOKEN["choices"] = [{**TOKEN["choices"][0], "text": "def "}]
END = {**delta("end", [8], "stop")}
END["choices"] = [{**END["choices"][0], "text": "end"}]
ABORT = delta("", [], "abort")
STOPPING = {"error": {"message": "shutting down", "code": 503}}
STOPPING_IN_WORDS = {"error": {"message": "stopping", "code": "engine_unavailable"}}
INTERNAL = {"error": {"message": "boom", "type": "InternalServerError", "code": 500}}


class PoisonedEngine(FakeEngine):
    """Fails requests with `POISON` as `poison` says, and all others as `ill` says.

    Ways to fail: a status; `event`: an error event after a token; `event_at_once`: as its first
    event; `reset`: the connection is reset before the answer; `cut`: after a token; `hang`: no
    answer; empty for none. With `exits` the engine stops listening once it has failed poison so.
    `holds` keeps every good answer until the event is set. The streams of
    chats in `cut_chats` are cut after a token, and can be continued.
    """

    poison: int | str = ""
    ill: int | str = ""
    cut_chats: int = 0
    exits: bool = False
    num_poisoned: int = 0
    holds: asyncio.Event | None = None
    body: bytes = b"{}"
    """Of an answer with a status."""

    async def __aenter__(self) -> PoisonedEngine:
        await super().__aenter__()
        self.words = {1: "", 2: "", 7: "def ", 8: "end"}
        return self

    async def _detokenize(self, request: web.Request) -> web.Response:
        if isinstance(self.ill, int):
            return web.Response(status=self.ill, body=self.body)
        return await super()._detokenize(request)

    async def _do(self, request: web.Request, body: dict[str, object]) -> web.StreamResponse:
        is_poison = POISON in str(body.get("messages", "")) or body.get("user") == POISON
        self.num_poisoned += is_poison
        way = self.poison if is_poison else self.ill
        if way and is_poison and self.exits:
            return await self._fail_and_exit(request, way)
        if way:
            return await self._fail(request, way)
        if self.holds is not None:
            await self.holds.wait()
        if request.path == "/v1/completions":
            return await self._stream(request, sse(END, "[DONE]"))
        if self.cut_chats and body.get("stream"):
            self.cut_chats -= 1
            return await self._stream(request, sse(ROLE, TOKEN))
        if body.get("stream"):
            return await self._stream(request, sse(ROLE, TOKEN, END, "[DONE]"))
        return await super()._do(request, body)

    async def _fail_and_exit(self, request: web.Request, way: int | str) -> web.StreamResponse:
        response = await self._fail(request, way)
        for site in list(self._runner.sites):
            await site.stop()
        return response

    async def _fail(self, request: web.Request, way: int | str) -> web.StreamResponse:
        if isinstance(way, int):
            headers = {"location": "https://login.example/"} if 300 <= way < 400 else {}
            headers |= {"retry-after": "1"} if way in (429, 503) else {}
            return web.Response(status=way, body=self.body, headers=headers)
        if way == "hang":
            await asyncio.Event().wait()
        if way == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        parts = {
            "event": (ROLE, TOKEN, INTERNAL),
            "event_at_once": (INTERNAL,),
            "event_503": (ROLE, TOKEN, STOPPING),
            "event_in_words": (STOPPING_IN_WORDS,),
            "abort": (ROLE, TOKEN, ABORT, "[DONE]"),
        }
        return await self._stream(request, sse(*parts.get(way, (ROLE, TOKEN))))

    async def _stream(self, request: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(data)
        return response


@dataclass
class Fleet:
    gateway: RunningGateway
    engines: list[PoisonedEngine]
    source: FixedReplicas
    http: httpx.AsyncClient

    def breakers(self) -> list[str]:
        """Of all replicas, in order."""
        states = self.gateway.traffic.breaker_states()
        return [str(states.get(f"r{n}", "closed")) for n in range(len(self.engines))]

    def num_begun(self) -> list[int]:
        """Requests that each engine has received."""
        return [engine.num_begun for engine in self.engines]

    async def ask(self, text: str = "hello", **changes: Any) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        user = {"user": text} if text == POISON else {}  # a continuation has no messages
        return await self.http.post(CHAT, json=chat(messages=messages, **user, **changes))

    async def count(self, metric: str) -> float:
        """A value of the metrics page, given with its labels."""
        async with httpx.AsyncClient(base_url=self.gateway.admin_url, timeout=60) as admin:
            lines = (await admin.get("/metrics")).text.splitlines()
        (value,) = (line.removeprefix(metric) for line in lines if line.startswith(f"{metric} "))
        return float(value)


@asynccontextmanager
async def fleet(
    num: int, failures: FailureSettings = FAILURES, dying_s: float = 0.01, **changes: Any
) -> AsyncIterator[Fleet]:
    """The replicas are r0, r1, …; an idle gateway chooses the first one.

    `dying_s`: how long the gateway waits for a replica that failed a request to exit.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(mock.patch.object(replica_deaths, "DYING_S", dying_s))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = [
            await stack.enter_async_context(PoisonedEngine(folder / f"{n}.sock"))
            for n in range(num)
        ]
        source = FixedReplicas(
            [
                Replica(f"r{n}", str(engine.socket), MODEL, "ready", max_model_len=2048)
                for n, engine in enumerate(engines)
            ]
        )
        settings = replace(SETTINGS, failures=failures, **changes)
        gateway = await stack.enter_async_context(serve_gateway(settings, source))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=60))
        yield Fleet(gateway, engines, source, http)

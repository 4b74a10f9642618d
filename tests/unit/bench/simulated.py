"""A simulated server with known behaviour, scripted by each prompt.

A prompt is a JSON object: `chunks` (list of texts), `tokens`, `delay_s` before each chunk, `fail`
(the kind of failure), `beside_usage` (fields of the last chunk). It speaks real HTTP on loopback
and streams like vLLM.
As a program, `simulated.py PORT DELAY_S`, it adds that delay to every chunk.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from paceline.foundation.workloads import Prompt, SamplingSettings, build_spec


@dataclass
class SimulatedServer:
    """Serves both routes of completions by script and counts requests."""

    url: str = ""
    num_received: int = 0
    num_in_flight: int = 0
    max_in_flight: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    before_chunk: Callable[[int], Any] | None = None
    """Awaited before chunk number i of each answer is written (and once after the last)."""
    release_after: int = 0
    """Answers begin only when this many requests have arrived."""
    extra_delay_s: float = 0.0
    drafted: int = 0
    has_metrics: bool = True
    owned_by: str = "vllm"
    takes_ignore_eos: bool = True
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """A first request has arrived."""
    _enough: asyncio.Event = field(default_factory=asyncio.Event)

    def header(self, number: int, name: str) -> str | None:
        """A header of a request by its number, whatever the case of its name."""
        lower = {key.lower(): value for key, value in self.headers[number].items()}
        return lower.get(name)

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/version", self._version)
        application.router.add_post("/v1/completions", self._complete)
        application.router.add_post("/v1/chat/completions", self._complete)
        return application

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "simulated", "owned_by": self.owned_by}]})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "9.9.9"})

    async def _metrics(self, request: web.Request) -> web.Response:
        if not self.has_metrics:
            raise web.HTTPNotFound
        return web.Response(
            text=f"vllm:spec_decode_num_drafts_total {self.drafted // 4}\n"
            f"vllm:spec_decode_num_draft_tokens_total {self.drafted}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {self.drafted // 2}\n"
        )

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        script = _script_of(body)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.num_received += 1
        self.arrived.set()
        self.num_in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.num_in_flight)
        try:
            if self.num_received >= self.release_after:
                self._enough.set()
            await self._enough.wait()
            return await self._answer(request, body, script)
        finally:
            self.num_in_flight -= 1

    async def _answer(
        self, request: web.Request, body: dict[str, Any], script: dict[str, Any]
    ) -> web.StreamResponse:
        fail = script.get("fail")
        if body.get("ignore_eos") and not self.takes_ignore_eos:
            return web.json_response({"error": {"message": "'ignore_eos' is odd"}}, status=400)
        if fail == "status":
            error = {"error": {"message": "no such thing", "code": 400}}
            return web.json_response(error, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chunks = script.get("chunks", ["a", "b", "c"])
        for number, text in enumerate(chunks):
            # sleep: the server's slowness, as scripted
            await asyncio.sleep(script.get("delay_s", 0) + self.extra_delay_s)
            if self.before_chunk is not None:
                await self.before_chunk(number)
            choice = {"text": text} if "prompt" in body else {"delta": {"content": text}}
            await self._write(response, {"choices": [{"index": 0, **choice}]})
        if self.before_chunk is not None:
            await self.before_chunk(len(chunks))
        if fail == "hang":
            await asyncio.Event().wait()
        elif fail == "abort":
            assert request.transport is not None
            request.transport.abort()
        elif fail == "garbage":
            await response.write(b"data: {nonsense\n\n")
        elif fail == "error":
            await self._write(response, {"error": {"message": "engine died", "code": 500}})
        elif fail != "truncate":
            self.drafted += 8
            finish = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
            usage = {
                "prompt_tokens": script.get("prompt_tokens", 4),
                "completion_tokens": script.get("tokens", len(chunks)),
            }
            last = (
                []
                if fail == "usage"
                else [{"choices": [], "usage": usage, **script.get("beside_usage", {})}]
            )
            events = [f"data: {json.dumps(event)}\n\n" for event in (finish, *last)]
            await response.write("".join([*events, "data: [DONE]\n\n"]).encode())
        return response

    async def _write(self, response: web.StreamResponse, event: dict[str, Any]) -> None:
        await response.write(f"data: {json.dumps(event)}\n\n".encode())


def _script_of(body: dict[str, Any]) -> dict[str, Any]:
    """The script in the prompt, or in the last message of a chat.

    A text that is no script has two characters per token.
    """
    text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    if not text.startswith("{"):
        return {"prompt_tokens": len(text) // 2}
    script = json.loads(text)
    assert isinstance(script, dict)
    return script


def scripted(**script: Any) -> Prompt:
    """A prompt that makes the simulated server follow this script."""
    return Prompt("code", None, json.dumps(script), None)


def scripted_spec(index: int = 0, **script: Any) -> Any:
    return build_spec(
        scripted(**script), SamplingSettings("simulated", 0.0, None, None, 0, {}), index
    )


async def start(server: SimulatedServer, port: int = 0) -> web.AppRunner:
    """Serve on this port, or on a free one."""
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    return runner


async def _serve_for_ever(port: int, extra_delay_s: float) -> None:
    await start(SimulatedServer(extra_delay_s=extra_delay_s), port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve_for_ever(int(sys.argv[1]), float(sys.argv[2])))

"""Runs against one server: a repeated run finds nothing of the first in the prefix cache."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from paceline.workbench.bench.trace.measure import CACHE_IS_SHARED, measure_trace
from unit.bench.trace.runs import closed, make_trace, measurement, scripted
from unit.bench.trace.virtual_time import clocks_of_the_event_loop, now_s

__all__ = ["clocks_of_the_event_loop"]

TRACE = make_trace([scripted("easy", 0.5)], [closed("a", 1, "easy", 0.05)])
USAGE = {"prompt_tokens": 16, "completion_tokens": 12, "total_tokens": 28}


class Server:
    """Answers every completion and keeps its body. It can refuse `cache_salt`."""

    def __init__(self, *, refuses_salt: bool) -> None:
        self._refuses_salt = refuses_salt
        self.bodies: list[dict[str, Any]] = []

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self._refuses_salt and "cache_salt" in body:
            return web.json_response({"error": {"message": "cache_salt is refused"}}, status=400)
        self.bodies.append(body)
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await asyncio.sleep(0.005)  # sleep: of virtual time
        chunk = {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}
        for one in (chunk, {"choices": [], "usage": USAGE}):
            await answer.write(f"data: {json.dumps(one)}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})


async def run_twice(server: Server) -> list[list[str]]:
    """The notes of both runs."""
    app = web.Application()
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_get("/v1/models", server.models)
    runner = web.AppRunner(app)
    await runner.setup()
    notes = []
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        for _ in range(2):
            one = measurement(TRACE, url=url)
            await measure_trace(one, None, lambda phase: None, clock=now_s)
            assert one.log.records
            assert all(record.is_ok for record in one.log.records)
            notes.append(one.notes)
    finally:
        await runner.cleanup()
    return notes


async def test_two_runs_with_one_seed_have_a_prefix_cache_each() -> None:
    server = Server(refuses_salt=False)
    assert await run_twice(server) == [[], []]
    sent = {(body["cache_salt"], str(body["prompt"])) for body in server.bodies}
    salts = [salt for salt, prompt in sent if prompt == str(server.bodies[1]["prompt"])]
    assert len({body["cache_salt"] for body in server.bodies}) == 4  # two probes, two runs
    assert len(salts) == 4


async def test_a_server_that_refuses_the_salt_is_measured_with_a_note() -> None:
    server = Server(refuses_salt=True)
    assert await run_twice(server) == [[CACHE_IS_SHARED]] * 2
    assert server.bodies
    assert all("cache_salt" not in body for body in server.bodies)

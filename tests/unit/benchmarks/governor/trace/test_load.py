"""The trace against a simulated server: counted tokens, cancelled requests, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import web

from benchmarks.governor.trace.load import run_trace
from benchmarks.governor.trace.phases import TracePhase
from paceline.workloads import RequestSpec
from unit.bench.trace.virtual_time import clocks_of_the_event_loop

__all__ = ["clocks_of_the_event_loop"]

PHASES = [TracePhase("one", "code", 0.0, 2), TracePhase("two", "code", 0.0, 1)]


class Server:
    """Streams chunks of three tokens every 50 ms until the client disconnects."""

    def __init__(self) -> None:
        self.num_in_flight = 0
        self.max_in_flight = 0
        self.num_chunks = 0
        self.fails = False

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if self.fails:
            return web.json_response({"error": {"message": "no"}}, status=500)
        self.num_in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.num_in_flight)
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for number in range(1, 1000):
                usage = {"prompt_tokens": 5, "completion_tokens": 3 * number}
                event = json.dumps({"choices": [], "usage": usage})
                await response.write(f"data: {event}\n\n".encode())
                self.num_chunks += 1
                await asyncio.sleep(0.05)  # sleep: of virtual time
            return response
        finally:
            self.num_in_flight -= 1

    async def governor(self, request: web.Request) -> web.Response:
        state = {
            "draft_length": 4,
            "drafted_tokens_total": 1000 + 4 * self.num_chunks,
            "accepted_tokens_total": 500 + 2 * self.num_chunks,
            "steps_total": 7 + self.num_chunks,
        }
        return web.json_response({"replicas": {"engine-0": state}})


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, str]]:
    simulated = Server()
    application = web.Application()
    application.router.add_post("/v1/completions", simulated.complete)
    application.router.add_get("/admin/governor", simulated.governor)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield simulated, f"http://{host}:{port}"
    await runner.cleanup()


def requests(number: int, phase: TracePhase) -> Iterator[RequestSpec]:
    return iter(RequestSpec(index, "code", "/v1/completions", b"{}") for index in range(1000))


async def test_phases_end_on_time_and_count_what_arrived(server: tuple[Server, str]) -> None:
    """0.6 s at 2 and at 1 in flight: about 12 chunks of 3 tokens per request."""
    simulated, url = server
    logs, watch = await run_trace(url, url, PHASES, requests, phase_s=0.6, bucket_s=0.1)
    first, second = (log.render() for log in logs)
    assert simulated.max_in_flight == 2
    assert (first["num_started"], first["num_cancelled"], first["num_errors"]) == (2, 2, 0)
    assert second["num_started"] == 1
    assert len(first["bucket_tokens"]) == 6
    assert first["tokens"] % 3 == 0
    assert 66 <= first["tokens"] <= 72
    assert 33 <= second["tokens"] <= 36
    assert first["inter_chunk_p50_ms"] == pytest.approx(50, abs=1)
    columns = watch.render()
    assert columns["drafted_tokens"][0] == 0
    assert columns["drafted_tokens"][-1] == 2 * columns["accepted_tokens"][-1] > 0
    assert set(columns["draft_length"]) == {4}
    assert columns["t_s"][-1] == pytest.approx(1.2, abs=0.1)


async def test_refused_requests_are_errors_and_cause_no_flood(
    server: tuple[Server, str],
) -> None:
    """One slot, 0.6 s, 0.2 s after each error: three or four."""
    simulated, url = server
    simulated.fails = True
    logs, _ = await run_trace(url, url, PHASES[1:], requests, phase_s=0.6, bucket_s=0.1)
    found = logs[0].render()
    assert 2 <= found["num_errors"] <= 4
    assert "status 500" in found["error_samples"][0]

"""Run the trace against a server: one closed loop per phase, cancelled at the end of the phase.

A phase has a fixed wall time. Requests in flight at its end are cancelled and the next phase begins
at once; the engine drops cancelled requests within two steps. A token counts in the phase in which
it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from benchmarks.governor.trace.phase_log import PhaseLog
from benchmarks.governor.trace.phases import TracePhase
from benchmarks.governor.trace.watch import GovernorWatch
from paceline.bench.load.sse import SseDecoder
from paceline.workloads import RequestSpec

WAIT_AFTER_ERROR_S = 0.2
"""Keeps the load from flooding a server that refuses every request."""

RequestSource = Callable[[int, TracePhase], Iterator[RequestSpec]]


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    usage: _Usage | None = None
    error: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class _RequestFailed(Exception):
    """The message says how the request failed."""


_FAILURES = (_RequestFailed, aiohttp.ClientError, OSError, ValueError, msgspec.MsgspecError)


async def run_trace(
    url: str,
    admin_url: str,
    phases: Sequence[TracePhase],
    requests: RequestSource,
    *,
    phase_s: float,
    bucket_s: float,
) -> tuple[list[PhaseLog], GovernorWatch]:
    """Run every phase in turn. Failed requests are recorded in the logs and do not raise."""
    watch = GovernorWatch(admin_url)
    logs = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        # Built before the clock starts: composing a conversation takes time.
        sources = [requests(number, phase) for number, phase in enumerate(phases)]
        firsts = [next(source) for source in sources]
        zero_s = time.perf_counter()
        async with watch.running(session, zero_s):
            for number, phase in enumerate(phases):
                log = PhaseLog(phase.name, phase_s, bucket_s)
                source = _with_first(firsts[number], sources[number])
                start_s = zero_s + number * phase_s
                await _run_phase(session, URL(url), phase.concurrency, source, log, start_s)
                logs.append(log)
    return logs, watch


def _with_first(first: RequestSpec, rest: Iterator[RequestSpec]) -> Iterator[RequestSpec]:
    yield first
    yield from rest


async def _run_phase(
    session: aiohttp.ClientSession,
    server: URL,
    concurrency: int,
    source: Iterator[RequestSpec],
    log: PhaseLog,
    start_s: float,
) -> None:
    """Keep `concurrency` requests in flight until the phase's time is over."""

    async def fill_slot() -> None:
        while True:
            log.num_started += 1
            try:
                await _send(session, server, next(source), log, start_s)
                log.num_finished += 1
            except asyncio.CancelledError:
                log.num_cancelled += 1
                raise
            except _FAILURES as error:
                log.errors.append(f"{type(error).__name__}: {error}"[:300])
                await asyncio.sleep(WAIT_AFTER_ERROR_S)

    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(max(start_s + log.seconds - time.perf_counter(), 0.0)),
            asyncio.TaskGroup() as slots,
        ):
            for _ in range(concurrency):
                slots.create_task(fill_slot())


async def _send(
    session: aiohttp.ClientSession, server: URL, spec: RequestSpec, log: PhaseLog, start_s: float
) -> None:
    """Send one request and read its stream to the end; raises for any other answer."""
    sent_s = time.perf_counter()
    previous_s: float | None = None
    num_tokens = 0
    async with session.post(
        server.join(URL(spec.path)),
        data=spec.body,
        headers={"Content-Type": "application/json"},
        allow_redirects=False,
    ) as response:
        if response.status != 200:
            raise _RequestFailed(f"status {response.status}: {(await response.text())[:200]}")
        decoder = SseDecoder()
        is_done = False
        async for data in response.content.iter_any():
            now_s = time.perf_counter()
            for event in decoder.feed(data):
                if event == b"[DONE]":
                    is_done = True
                    continue
                chunk = _decode_chunk(event)
                if chunk.error is not None:
                    raise _RequestFailed(f"error in the stream: {chunk.error}")
                if chunk.usage is None or chunk.usage.completion_tokens <= num_tokens:
                    continue
                if num_tokens == 0:
                    log.add_first_token(now_s - sent_s)
                    log.prompt_tokens += chunk.usage.prompt_tokens
                log.count_tokens(now_s - start_s, chunk.usage.completion_tokens - num_tokens)
                num_tokens = chunk.usage.completion_tokens
                if previous_s is not None:
                    log.add_gap(now_s - previous_s)
                previous_s = now_s
        if not is_done:
            raise _RequestFailed("the stream ended without [DONE]")

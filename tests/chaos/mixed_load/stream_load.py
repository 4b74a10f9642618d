"""`run_streams`: keep a number of streams of every kind open, a quarter of them read slowly."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable
from dataclasses import dataclass

import aiohttp

from chaos.expected_requests import ExpectedRequest
from chaos.fleet import Fleet
from chaos.mixed_load.stream_kinds import KINDS, StreamKind
from chaos.slow_clients.slow_reader import SlowReader
from chaos.transcript import Transcript, send_request

_SLOW_EVERY = 4
_BYTES_PER_READ = 65536
_LAST_STREAMS_S = 120.0
"""The streams that run when the faults are over must end within this time."""


@dataclass(frozen=True, slots=True)
class LoadShape:
    """The streams of a load."""

    num_streams: int
    """Open at the same time."""
    max_tokens: int
    slow_max_tokens: int
    """Of the streams that are read slowly: more than fit into the buffers on the way."""
    slow_pause_s: tuple[float, float]
    """A slow client reads nothing for a time drawn from this range, and then everything."""


@dataclass(frozen=True, slots=True)
class LoadedStream:
    """One stream and what its client received."""

    kind: StreamKind
    is_slow: bool
    request: ExpectedRequest
    transcript: Transcript
    ended_s: float
    """When its client had the end; seconds since the epoch, as in the replicas' records."""

    @property
    def begun_s(self) -> float:
        return self.ended_s - (self.transcript.end_s - self.transcript.start_s)

    @property
    def kind_name(self) -> str:
        return f"{self.kind.name}, read slowly" if self.is_slow else self.kind.name


async def run_streams(
    fleet: Fleet,
    shape: LoadShape,
    faults: Awaitable[object],
    *,
    name: str = "load",
    streams: list[LoadedStream] | None = None,
) -> list[LoadedStream]:
    """Run streams until `faults` is over; returns all of them, each read to its end.

    `name` begins their request ids; no two loads of a fleet may share it. `streams` grows while
    they run, for callers that report on the way.
    """
    streams = [] if streams is None else streams
    is_over = asyncio.Event()

    async def load(session: aiohttp.ClientSession, worker: int) -> None:
        drawn = random.Random(worker)
        kind = KINDS[worker % len(KINDS)]
        is_slow = worker // len(KINDS) % _SLOW_EVERY == _SLOW_EVERY - 1
        max_tokens = shape.slow_max_tokens if is_slow else shape.max_tokens
        number = worker
        while not is_over.is_set():
            request, request_id = kind.request(number, max_tokens), f"{name}-{number}"
            if is_slow:
                reader = SlowReader(
                    fleet.gateway.url, request.path, request.body, request_id, fleet.key
                )
                await reader.send()
                # sleep: a client that is slow by design; its answer is the same
                await asyncio.sleep(drawn.uniform(*shape.slow_pause_s))
                transcript = await reader.read(_BYTES_PER_READ)
            else:
                url = fleet.gateway.url + request.path
                transcript = await send_request(session, url, request.body, request_id, fleet.key)
            streams.append(LoadedStream(kind, is_slow, request, transcript, time.time()))
            number += shape.num_streams  # no two requests have the same number

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        workers = [asyncio.create_task(load(session, n)) for n in range(shape.num_streams)]
        try:
            await faults
        finally:
            is_over.set()
            async with asyncio.timeout(_LAST_STREAMS_S):
                await asyncio.gather(*workers)
    return streams

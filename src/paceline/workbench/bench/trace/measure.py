"""Carry out one run of a trace, against a server that runs already or servers that it starts."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

import aiohttp
from yarl import URL

from paceline.foundation.load.client import Clock, StreamingClient
from paceline.foundation.load.config import parse_server_url
from paceline.foundation.load.loop_lag import LoopLag, watched_loop
from paceline.foundation.results.environment import Environment
from paceline.foundation.servers.described import fetch_model, fetch_version
from paceline.foundation.shifting_trace import TracePhase
from paceline.workbench.bench.results.counters import CounterReading, find_counters, read_again
from paceline.workbench.bench.trace.config import TraceConfig
from paceline.workbench.bench.trace.phase_run import OnPhase, PhaseLog, PhaseRun
from paceline.workbench.bench.trace.requests import make_probe, make_source
from paceline.workbench.bench.trace.started_server import started_server
from paceline.workbench.bench.trace.static_acceptance import stretches

CACHE_IS_SHARED = (
    "the server refuses cache_salt: prompts that an earlier run sent to it may be answered from "
    "its prefix cache. Start it anew before each run, or measure an engine without a gateway"
)


@dataclass(slots=True)
class TraceMeasurement:
    """What a run saw; an interrupted one is filled as far as it came."""

    config: TraceConfig
    environment: Environment
    log: PhaseLog = field(default_factory=PhaseLog)
    lag: LoopLag = field(default_factory=lambda: LoopLag(0.0))
    is_interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    """What a reader of the figures must know."""


async def measure_trace(
    measurement: TraceMeasurement,
    api_key: str | None,
    on_phase: OnPhase,
    clock: Clock = time.perf_counter,
) -> None:
    """Run the trace and fill `measurement` in.

    Raises BenchError, WorkloadError or CountersUnavailable if the run cannot take place, and
    BenchError if a server does not start or is gone. Cancellation leaves what was measured.
    """
    config = measurement.config
    phases = config.scaled.phases
    async with watched_loop(clock) as measurement.lag:
        if config.serve_command is None:
            server = parse_server_url(config.url or "")
            await _run_phases(
                measurement, server, list(enumerate(phases)), api_key, on_phase, clock
            )
            return
        for rates, together in stretches(config.scaled, config.draft_length):
            async with started_server(
                config.serve_command, rates, config.speculative_config, config.start_timeout_s
            ) as server:
                await _run_phases(measurement, server, together, api_key, on_phase, clock)


async def _run_phases(
    measurement: TraceMeasurement,
    server: URL,
    phases: Sequence[tuple[int, TracePhase]],
    api_key: str | None,
    on_phase: OnPhase,
    clock: Clock,
) -> None:
    config = measurement.config
    admin = parse_server_url(config.admin_url) if config.admin_url is not None else None
    async with _client_session() as session:
        model = config.model or await fetch_model(session, server, api_key)
        measurement.config = config = replace(config, model=model)
        measurement.environment = replace(
            measurement.environment, vllm_server=await fetch_version(session, server)
        )
        client = StreamingClient(session, server, api_key, config.timeout_s, clock)
        salt = f"trace-{uuid.uuid4()}"
        accepts_salt = await _accepts_salt(client, config, model, salt, phases[0][0], clock)
        if not accepts_salt and CACHE_IS_SHARED not in measurement.notes:
            measurement.notes.append(CACHE_IS_SHARED)
        id_prefix = f"trace-{secrets.token_hex(3)}-"
        source = make_source(config, model, id_prefix, salt if accepts_salt else None)
        first_reading = await find_counters(session, server, admin, api_key)

        async def read_counters() -> CounterReading | None:
            return await read_again(session, first_reading)

        run = PhaseRun(
            client,
            source,
            clock,
            measurement.log,
            zero_s=measurement.lag.zero_s,
            seed=config.seed,
        )
        await run.run(phases, read_counters, on_phase)


async def _accepts_salt(
    client: StreamingClient,
    config: TraceConfig,
    model: str,
    salt: str,
    phase_number: int,
    clock: Clock,
) -> bool:
    """Whether the server answers a short request that carries `cache_salt`."""
    source = make_source(config, model, f"{salt}-probe-", f"{salt}-probe")
    probe = make_probe(source.next_request(phase_number))
    return (await client.send(probe, 0.0, clock())).is_ok


@contextlib.asynccontextmanager
async def _client_session() -> AsyncIterator[aiohttp.ClientSession]:
    """Without limits of its own, so that the load alone decides how many requests are in flight."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        yield session

"""One benchmark run: warm up, apply the load in every repeat, and assemble the figures."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import secrets
import time
from collections.abc import Sequence

import aiohttp

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError, RunConfig, parse_server_url
from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.load.suited_workload import find_suited_workload
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.servers.described import fetch_model, fetch_version
from paceline.foundation.workloads import (
    FillerText,
    Prompt,
    SamplingSettings,
    build_spec,
    build_specs,
    heldout_text,
    probe_text,
)
from paceline.workbench.bench.results.counters import CounterReading, find_counters, read_again
from paceline.workbench.bench.results.validity import RunWarning
from paceline.workbench.bench.run.outcome import RunResult, assemble_result
from paceline.workbench.bench.run.plan import PhasePlan, describe_trace, load_run_trace, plan_run
from paceline.workbench.bench.run.repeat import PhaseSource, Progress, RepeatOutcome, run_repeat

_PROBE_CHARS = 2000
"""Long enough to measure characters per token within 1 %, short enough for any context."""

_IGNORE_EOS_REFUSED = (
    "the server refuses ignore_eos, so that answers end where the model ends them, at the asked "
    "length at most. A Paceline takes it with server.granted_fields: [ignore_eos]"
)


async def measure(
    config: RunConfig,
    api_key: str | None,
    argv: Sequence[str],
    progress: Progress,
    stop: asyncio.Event | None = None,
) -> RunResult:
    """Carry out one run.

    Raises BenchError, WorkloadError or CountersUnavailable before the load starts. During the load,
    failures are recorded and not raised. When `stop` is set, the result has what was measured.
    """
    stop = stop or asyncio.Event()
    environment = describe_environment(argv)
    trace = load_run_trace(config)
    if trace is not None:
        config = dataclasses.replace(config, trace=describe_trace(trace))
    server = parse_server_url(config.url)
    admin = parse_server_url(config.admin_url) if config.admin_url is not None else None
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        client = StreamingClient(session, server, api_key, config.timeout_s)
        model = config.model or await fetch_model(session, server, api_key)
        config = dataclasses.replace(config, model=model)
        if config.needs_workload:
            suited = await find_suited_workload(session, server, api_key, model)
            config = dataclasses.replace(
                config, workload=suited.name, workload_reason=suited.reason
            )
        if not config.phases:
            config = dataclasses.replace(config, temperature=config.effective_temperature)
        environment = dataclasses.replace(
            environment, vllm_server=await fetch_version(session, server)
        )
        needs_filler = config.synthetic or (trace is not None and trace.needs_filler)
        filler, allows_ignore_eos = (
            await _measure_filler(client, model) if needs_filler else (None, True)
        )
        phases = plan_run(config, trace, filler)
        run_id = secrets.token_hex(3)
        samplings = [
            dataclasses.replace(
                phase.sampling(config, model, f"bench-{run_id}-{number}-"),
                allows_ignore_eos=allows_ignore_eos,
            )
            for number, phase in enumerate(phases)
        ]
        warnings = await _warm_up(config, client, phases[0], samplings[0], progress, stop)
        if not allows_ignore_eos:
            warnings.append(RunWarning("ignore_eos", _IGNORE_EOS_REFUSED))
        first_reading = await find_counters(session, server, admin, api_key)

        async def read_counters() -> CounterReading | None:
            return await read_again(session, first_reading)

        sources = [PhaseSource(p, s) for p, s in zip(phases, samplings, strict=True)]
        outcomes: list[RepeatOutcome] = []
        while len(outcomes) < config.repeats and not stop.is_set():
            outcomes.append(
                await run_repeat(
                    phases,
                    sources,
                    client,
                    read_counters,
                    progress,
                    number=len(outcomes),
                    stop=stop,
                )
            )
    return assemble_result(config, environment, phases, outcomes, warnings)


async def _measure_filler(client: StreamingClient, model: str) -> tuple[FillerText, bool]:
    """The text for requests of which only lengths are known, after one request that counts its
    tokens; and whether the server takes `ignore_eos`, by which answers have their lengths."""
    sampling = SamplingSettings(model, 0.0, None, 1, 0, {})
    text = probe_text(_PROBE_CHARS)
    prompt = Prompt("probe", None, text, 1, ignore_eos=True)
    record = await client.send(build_spec(prompt, sampling, 0), 0.0, time.perf_counter())
    allows_ignore_eos = "ignore_eos" not in (record.error or "")
    if not allows_ignore_eos:
        prompt = dataclasses.replace(prompt, ignore_eos=False)
        record = await client.send(build_spec(prompt, sampling, 0), 0.0, time.perf_counter())
    if not record.prompt_tokens:
        raise BenchError(
            "cannot measure how many characters of text make one token, which a trace of lengths "
            f"needs: {record.error or 'the server reports no usage'}"
        )
    return FillerText(heldout_text(), len(text) / record.prompt_tokens), allows_ignore_eos


async def _warm_up(
    config: RunConfig,
    client: StreamingClient,
    phase: PhasePlan,
    sampling: SamplingSettings,
    progress: Progress,
    stop: asyncio.Event,
) -> list[RunWarning]:
    """Send the warm-up requests, which no figure counts; return warnings about failed ones.

    They take the prompts from the end, so that the measured prompts are not in the prefix cache.
    """
    if not config.num_warmup or stop.is_set():
        return []
    progress.begin("warming up", config.num_warmup)
    from_the_end = itertools.islice(reversed(phase.prompts), config.num_warmup)
    first_turns = [dataclasses.replace(prompt, turns=()) for prompt in from_the_end]
    unnamed = dataclasses.replace(sampling, id_prefix="")
    specs = itertools.islice(build_specs(first_turns, unnamed), config.num_warmup)
    work = asyncio.create_task(
        run_closed_loop(
            client, specs, config.concurrency or 1, None, time.perf_counter, progress.advance
        )
    )
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return []
        failed = [record for record in await work if not record.is_ok]
    finally:
        work.cancel()
        stopping.cancel()
    if not failed:
        return []
    return [RunWarning("warmup", f"{len(failed)} warm-up requests failed, e.g. {failed[0].error}")]

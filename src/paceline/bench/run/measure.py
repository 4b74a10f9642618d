"""One benchmark run: warm up, read the counters, apply the load, read the counters again."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp

from paceline.bench.load.arrivals import poisson_arrivals
from paceline.bench.load.client import StreamingClient
from paceline.bench.load.driver import OnRecord, run_closed_loop, run_open_loop
from paceline.bench.load.records import RequestRecord
from paceline.bench.results.counters import find_counters, finish_counters
from paceline.bench.results.environment import Environment, describe_environment
from paceline.bench.results.speculation import Speculation
from paceline.bench.results.summary import Summary, summarize
from paceline.bench.run.config import RunConfig, parse_server_url
from paceline.bench.run.server import fetch_model, fetch_version
from paceline.workloads import (
    Prompt,
    RequestSpec,
    SamplingSettings,
    build_specs,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a report needs."""

    config: RunConfig
    """With the model and the temperature that were used."""
    environment: Environment
    summary: Summary
    speculation: Speculation
    records: tuple[RequestRecord, ...]
    notes: tuple[str, ...]


class Progress(Protocol):
    """Receives the progress of a run. Its methods must return at once."""

    def begin(self, phase: str, num_requests: int | None) -> None:
        """A phase begins. `num_requests` is None when only time bounds the phase."""
        ...

    def advance(self, record: RequestRecord) -> None:
        """A request of the phase has ended."""
        ...


async def measure(
    config: RunConfig, api_key: str | None, argv: Sequence[str], progress: Progress
) -> RunResult:
    """Carry out one run.

    Raises BenchError, WorkloadError or CountersUnavailable before the load starts. During the load,
    failures are recorded and not raised.
    """
    environment = describe_environment(argv)
    prompts = _load_prompts(config)
    server = parse_server_url(config.url)
    admin = parse_server_url(config.admin_url) if config.admin_url is not None else None
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        client = StreamingClient(session, server, api_key, config.timeout_s)
        model = config.model or await fetch_model(session, server, api_key)
        config = dataclasses.replace(config, model=model, temperature=config.effective_temperature)
        sampling = _sampling(config, model)
        environment = dataclasses.replace(
            environment, vllm_server=await fetch_version(session, server)
        )
        notes = await _warm_up(config, client, prompts, sampling, progress)
        before = await find_counters(session, server, admin, api_key)
        progress.begin("measuring", config.num_requests)
        records = await _run_load(config, client, build_specs(prompts, sampling), progress.advance)
        speculation = await finish_counters(session, before)
    if len(records) + config.num_warmup > len(prompts):
        notes.append(
            f"{len(records)} requests and {config.num_warmup} for warm-up share {len(prompts)} "
            "prompts; the server may answer repeated prompts from its prefix cache"
        )
    summary = summarize(records, config.max_dispatch_delay_ms)
    return RunResult(config, environment, summary, speculation, tuple(records), tuple(notes))


def _load_prompts(config: RunConfig) -> list[Prompt]:
    if config.prompts_file is not None:
        return shuffle_prompts(load_prompt_file(Path(config.prompts_file)), config.seed)
    return load_workload(config.workload).prompts(config.seed)


def _sampling(config: RunConfig, model: str) -> SamplingSettings:
    return SamplingSettings(
        model=model,
        temperature=config.effective_temperature,
        top_p=config.top_p,
        max_tokens=config.max_tokens,
        seed=config.seed,
        extra_body=config.extra_body,
    )


async def _warm_up(
    config: RunConfig,
    client: StreamingClient,
    prompts: Sequence[Prompt],
    sampling: SamplingSettings,
    progress: Progress,
) -> list[str]:
    """Send the warm-up requests, which no figure counts; return notes on failed ones.

    They take the prompts from the end, so that the measured prompts are not in the prefix cache.
    """
    if not config.num_warmup:
        return []
    progress.begin("warming up", config.num_warmup)
    specs = itertools.islice(build_specs(prompts[::-1], sampling), config.num_warmup)
    concurrency = config.concurrency or 1
    records = await run_closed_loop(
        client, specs, concurrency, None, time.perf_counter, progress.advance
    )
    failed = [r for r in records if not r.is_ok]
    return [f"{len(failed)} warm-up requests failed, e.g. {failed[0].error}"] if failed else []


async def _run_load(
    config: RunConfig, client: StreamingClient, specs: Iterator[RequestSpec], on_record: OnRecord
) -> list[RequestRecord]:
    if config.rate_per_s is not None:
        offsets_s = poisson_arrivals(
            config.rate_per_s, config.seed, config.num_requests, config.duration_s
        )
        return await run_open_loop(client, specs, offsets_s.tolist(), time.perf_counter, on_record)
    specs = itertools.islice(specs, config.num_requests)
    return await run_closed_loop(
        client, specs, config.concurrency or 1, config.duration_s, time.perf_counter, on_record
    )

"""One benchmark run from its settings to its result: warm up, read counters, load, read again."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from yarl import URL

from paceline.bench.arrivals import poisson_arrivals
from paceline.bench.client import StreamingClient
from paceline.bench.counters import find_counters, finish_counters
from paceline.bench.environment import Environment, describe_environment
from paceline.bench.load import OnRecord, run_closed_loop, run_open_loop
from paceline.bench.speculation import Speculation
from paceline.bench.summary import Summary, summarize
from paceline.bench.values import RequestRecord, RequestSpec
from paceline.workloads.workloads import (
    DEFAULT_TEMPERATURES,
    Prompt,
    SamplingSettings,
    build_specs,
    load_heldout,
    load_prompt_file,
    select_workload,
    shuffle_prompts,
)

_SET_UP_TIMEOUT = aiohttp.ClientTimeout(total=30)


class BenchError(Exception):
    """The run cannot take place; the message says why."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The settings of one run; what the report shows under `config`."""

    url: str
    admin_url: str | None = None
    model: str | None = None
    """None: the first that the server lists."""
    workload: str = "mixed"
    prompts_file: str | None = None
    """Replaces the workload's prompts."""
    temperature: float | None = None
    """None: what the workload names, else 0."""
    top_p: float | None = None
    max_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    num_requests: int | None = None
    duration_s: float | None = None
    concurrency: int | None = 1
    """Closed loop; None for open loop."""
    rate_per_s: float | None = None
    """Open loop; None for closed loop."""
    num_warmup: int = 0
    timeout_s: float = 600.0
    max_dispatch_delay_ms: float = 25.0
    """Chosen by hand: a quarter of the 100 ms at which people notice a delay."""

    def __post_init__(self) -> None:
        if (self.concurrency is None) == (self.rate_per_s is None):
            raise ValueError("give either a concurrency (closed loop) or a rate (open loop)")
        if self.num_requests is None and self.duration_s is None:
            raise ValueError("give a number of requests or a duration, so that the run ends")


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a report needs."""

    config: RunConfig
    """With model and temperature as they were used."""
    environment: Environment
    summary: Summary
    speculation: Speculation
    records: tuple[RequestRecord, ...]
    notes: tuple[str, ...]


class Progress(Protocol):
    """Told of the run's advance; must return at once."""

    def begin(self, phase: str, num_requests: int | None) -> None:
        """A phase begins; None when only time bounds it."""
        ...

    def advance(self, record: RequestRecord) -> None:
        """A request of the phase has ended."""
        ...


async def measure(
    config: RunConfig, api_key: str | None, argv: Sequence[str], progress: Progress
) -> RunResult:
    """Carry out one run. Raises BenchError, WorkloadError or CountersUnavailable before the load;
    once it runs, failures are records.
    """
    environment = describe_environment(argv)
    prompts = _load_prompts(config)
    server = server_of(config.url)
    admin = server_of(config.admin_url) if config.admin_url is not None else None
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        client = StreamingClient(session, server, api_key, config.timeout_s)
        model = config.model or await _fetch_model(session, server, api_key)
        config = dataclasses.replace(config, model=model, temperature=_temperature(config))
        sampling = _sampling(config, model)
        environment = dataclasses.replace(
            environment, vllm_server=await _fetch_version(session, server)
        )
        notes = await _warm_up(config, client, prompts, sampling, progress)
        before = await find_counters(session, server, admin, api_key)
        progress.begin("measuring", config.num_requests)
        records = await _run_load(config, client, build_specs(prompts, sampling), progress.advance)
        speculation = await finish_counters(session, before)
    if len(records) + config.num_warmup > len(prompts):
        notes.append(
            f"{len(records)} requests and {config.num_warmup} for warm-up share {len(prompts)} "
            "prompts: repeated ones may be served from the prefix cache"
        )
    summary = summarize(records, config.max_dispatch_delay_ms)
    return RunResult(config, environment, summary, speculation, tuple(records), tuple(notes))


def server_of(url: str) -> URL:
    """The server's address, with or without the /v1 that clients of the OpenAI API give."""
    try:
        address = URL(url)
    except ValueError as error:
        raise BenchError(f"URL is {url!r}: {error}") from error
    if address.scheme not in ("http", "https") or not address.host:
        raise BenchError(f"URL is {url!r}; it must look like http://127.0.0.1:8000")
    path = address.path.rstrip("/").removesuffix("/v1")
    if path:
        raise BenchError(f"URL is {url!r}; its path must be empty or /v1")
    return address.origin()


def _load_prompts(config: RunConfig) -> list[Prompt]:
    if config.prompts_file is not None:
        return shuffle_prompts(load_prompt_file(Path(config.prompts_file)), config.seed)
    return select_workload(load_heldout(), config.workload, config.seed)


def _temperature(config: RunConfig) -> float:
    if config.temperature is not None:
        return config.temperature
    return 0.0 if config.prompts_file else DEFAULT_TEMPERATURES.get(config.workload, 0.0)


def _sampling(config: RunConfig, model: str) -> SamplingSettings:
    return SamplingSettings(
        model=model,
        temperature=_temperature(config),
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
    """Send the warm-up requests, which are not counted; notes on what went wrong.

    They take the prompts from the end, so that measured ones are not in the prefix cache yet.
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


async def _fetch_model(session: aiohttp.ClientSession, server: URL, api_key: str | None) -> str:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    page = server / "v1" / "models"
    try:
        async with session.get(
            page, headers=headers, timeout=_SET_UP_TIMEOUT, allow_redirects=False
        ) as response:
            if response.status != 200:
                raise BenchError(
                    f"{page} answered with status {response.status}; is the server ready, and "
                    "does it need --api-key?"
                )
            document = await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise BenchError(
            f"{page} cannot be read: {error or type(error).__name__}; is the server running?"
        ) from error
    try:
        return str(document["data"][0]["id"])
    except (KeyError, IndexError, TypeError) as error:
        raise BenchError(f"{page} lists no model; name one with --model") from error


async def _fetch_version(session: aiohttp.ClientSession, server: URL) -> str | None:
    """vLLM's version where the server tells it (/version); not every server does."""
    try:
        async with session.get(
            server / "version", timeout=_SET_UP_TIMEOUT, allow_redirects=False
        ) as response:
            document = await response.json(content_type=None) if response.status == 200 else None
    except (TimeoutError, aiohttp.ClientError, ValueError):
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, str) else None

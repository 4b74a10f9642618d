"""One comparison: start what must be started, run the campaign, describe both arms."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import numpy as np

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import BenchError, parse_server_url
from paceline.foundation.load.suited_workload import find_suited_workload
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.foundation.servers.described import fetch_model, fetch_version
from paceline.foundation.servers.governor.switch import RestoreFailed
from paceline.foundation.servers.serving import ServerAddresses, serving
from paceline.foundation.workloads import (
    Prompt,
    SamplingSettings,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)
from paceline.workbench.bench.compare.block_load import BlockLoad
from paceline.workbench.bench.compare.block_runner import HttpBlockRunner, Target
from paceline.workbench.bench.compare.campaign import (
    Campaign,
    CampaignSettings,
    judge_interrupted,
    run_campaign,
)
from paceline.workbench.bench.compare.config import CompareConfig, is_url
from paceline.workbench.bench.compare.contrasts import Arm
from paceline.workbench.bench.compare.switching import ArmSwitch, switchable_arms


@dataclass(frozen=True, slots=True)
class ArmIdentity:
    """What an arm is."""

    subject: str
    """As given: a URL or a configuration file."""
    url: str
    model: str
    vllm: str | None
    """As the server reports it."""
    setting: str | None = None
    """As given; None where each arm is a server of its own."""
    governors: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """By replica what the setting is there, as PATCH /admin/governor takes it."""


@dataclass(slots=True)
class Comparison:
    """Everything that the report needs. An interrupted comparison is filled as far as it came."""

    config: CompareConfig
    environment: Environment
    campaign: Campaign = field(default_factory=Campaign)
    arms: dict[Arm, ArmIdentity] = field(default_factory=dict)
    num_requests_per_block: int | None = None
    is_interrupted: bool = False
    restore_failure: str | None = None
    """Which governors keep a setting of an arm, and the commands that restore them."""
    notes: list[str] = field(default_factory=list)


async def compare(
    comparison: Comparison,
    api_key: str | None,
    admin_key: str | None,
    on_round: Callable[[Campaign], None],
) -> None:
    """Carry out the comparison and fill it in.

    Raises BenchError or WorkloadError if it cannot take place. Cancellation sets the governors back
    that were switched, stops the servers that were started, and leaves in `comparison` what was
    measured.
    """
    try:
        await _compare(comparison, api_key, admin_key, on_round)
    except RestoreFailed as failure:
        comparison.restore_failure = str(failure)
        if failure.__context__ is not None:  # the reason why the comparison ended early
            raise BenchError(str(failure.__context__)) from failure
    except asyncio.CancelledError as cancellation:
        if isinstance(cancellation.__cause__, RestoreFailed):
            comparison.restore_failure = str(cancellation.__cause__)
        raise


async def _compare(
    comparison: Comparison,
    api_key: str | None,
    admin_key: str | None,
    on_round: Callable[[Campaign], None],
) -> None:
    config = comparison.config
    prompts = None if config.needs_workload else _load_prompts(config)
    async with contextlib.AsyncExitStack() as stack:
        servers = await stack.enter_async_context(_servers(config))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                read_bufsize=2**20,
            )
        )
        targets = await _targets(comparison, servers, session, api_key)
        switch = None
        if config.settings is not None:
            admin = parse_server_url(servers[Arm.A].admin_url)
            switch = await stack.enter_async_context(
                switchable_arms(
                    session, admin, admin_key, targets[Arm.A].model, config.settings_by_arm
                )
            )
            targets = _switched_targets(comparison, targets, switch)
        if config.needs_workload:
            server, model = parse_server_url(servers[Arm.A].url), targets[Arm.A].model
            suited = await find_suited_workload(session, server, api_key, model)
            comparison.config = config = replace(config, workload=suited.name)
            comparison.notes.append(
                f"the prompts are the workload {suited.name}: of A, {suited.reason}"
            )
        prompts = prompts or _load_prompts(config)
        runner = HttpBlockRunner(targets, _block_load(config, prompts), f"compare-{uuid.uuid4()}")
        await runner.prepare(config.block_s)
        if switch is not None:
            await switch.check_same_server(servers[Arm.A].url)
        comparison.num_requests_per_block = runner.num_requests
        if not runner.salts_cache:
            comparison.notes.append(
                "a server refuses cache_salt: the blocks of a round share a prefix cache, so half "
                "of the prompts may be answered from it, in both arms alike"
            )
        await run_campaign(
            campaign_settings(config), runner, time.perf_counter, comparison.campaign, on_round
        )


def campaign_settings(config: CompareConfig) -> CampaignSettings:
    """The bounds of the campaign from the configuration."""
    return CampaignSettings(
        primary=config.primary,
        margin=config.margin,
        total_error=1 - config.confidence,
        max_s=60 * config.max_minutes,
        seed=config.seed,
    )


def finish(comparison: Comparison, *, is_interrupted: bool) -> None:
    """Add the last look of an interrupted comparison, and the notes on validity."""
    comparison.is_interrupted = is_interrupted
    if is_interrupted:
        judge_interrupted(campaign_settings(comparison.config), comparison.campaign)
        comparison.notes.append("interrupted before the planned end; the figures are partial")
    if comparison.restore_failure is not None:
        comparison.notes.append(
            "governors keep the setting of an arm; stderr has the commands that set them back"
        )
    late_ms = _late_ms(comparison.campaign)
    if late_ms is not None and late_ms > comparison.config.max_dispatch_delay_ms:
        comparison.notes.append(
            f"not valid: the load generator sent requests {late_ms:.1f} ms late (p99); at most "
            f"{comparison.config.max_dispatch_delay_ms:g} ms are allowed "
            "(--max-dispatch-delay-ms). Lower the rate, or run the load generator elsewhere"
        )


def is_valid(comparison: Comparison) -> bool:
    """Whether the load generator kept to the schedule."""
    late_ms = _late_ms(comparison.campaign)
    return late_ms is None or late_ms <= comparison.config.max_dispatch_delay_ms


def new_comparison(config: CompareConfig, argv: Sequence[str]) -> Comparison:
    """An empty comparison, with the temperature that is used."""
    config = dataclasses.replace(config, temperature=config.effective_temperature)
    return Comparison(config, describe_environment(argv))


def _late_ms(campaign: Campaign) -> float | None:
    """The 99th percentile of the dispatch delay of all requests; None without requests."""
    late_ms = [ms for r in campaign.rounds for b in r.blocks for ms in b.dispatch_delays_ms]
    return float(np.percentile(late_ms, 99)) if late_ms else None


@contextlib.asynccontextmanager
async def _servers(config: CompareConfig) -> AsyncIterator[dict[Arm, ServerAddresses]]:
    """The servers of both arms. Configurations are served as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="bench-compare-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            servers: dict[Arm, ServerAddresses] = {}
            for arm, subject in ((Arm.A, config.a), (Arm.B, config.b)):
                if subject is None:
                    servers[arm] = servers[Arm.A]
                elif is_url(subject):
                    servers[arm] = ServerAddresses(subject, config.admin_address)
                else:
                    servers[arm] = await stack.enter_async_context(
                        serving(arm.upper(), Path(subject), Path(folder), config.start_timeout_s)
                    )
            yield servers


async def _targets(
    comparison: Comparison,
    servers: Mapping[Arm, ServerAddresses],
    session: aiohttp.ClientSession,
    api_key: str | None,
) -> dict[Arm, Target]:
    """What both arms send to; also notes who they are."""
    config = comparison.config
    targets = {}
    for arm, subject in ((Arm.A, config.a), (Arm.B, config.b or config.a)):
        url = servers[arm].url
        server = parse_server_url(url)
        model = config.model or await fetch_model(session, server, api_key)
        targets[arm] = Target(StreamingClient(session, server, api_key, config.timeout_s), model)
        version = await fetch_version(session, server)
        comparison.arms[arm] = ArmIdentity(subject, url, model, version)
    return targets


def _switched_targets(
    comparison: Comparison, targets: Mapping[Arm, Target], switch: ArmSwitch
) -> dict[Arm, Target]:
    """The targets, each with the setting of its arm; also notes what the settings are."""
    comparison.notes += switch.notes()
    for arm, setting in comparison.config.settings_by_arm.items():
        comparison.arms[arm] = dataclasses.replace(
            comparison.arms[arm], setting=setting, governors=switch.governors(arm)
        )
    return {
        arm: dataclasses.replace(target, switch=functools.partial(switch.apply, arm))
        for arm, target in targets.items()
    }


def _load_prompts(config: CompareConfig) -> list[Prompt]:
    if config.prompts_file is not None:
        return shuffle_prompts(load_prompt_file(Path(config.prompts_file)), config.seed)
    assert config.workload is not None
    return load_workload(config.workload).prompts(config.seed)


def _block_load(config: CompareConfig, prompts: list[Prompt]) -> BlockLoad:
    return BlockLoad(
        prompts=prompts,
        sampling=SamplingSettings(
            model="",
            temperature=config.effective_temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens,
            seed=config.seed,
            extra_body=config.extra_body,
        ),
        num_requests=1,
        concurrency=config.concurrency,
        rate_per_s=config.rate_per_s,
        seed=config.seed,
    )

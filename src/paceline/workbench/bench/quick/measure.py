"""One quick measurement: find out what the server accepts, search, measure speculation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp

from paceline.foundation.load.config import parse_server_url
from paceline.foundation.load.quick_requests import SessionSender, build_forever, find_form
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.load.suited_workload import find_suited_workload
from paceline.foundation.results.environment import Environment
from paceline.foundation.servers.described import fetch_model, fetch_version
from paceline.foundation.servers.governor.switch import (
    RestoreFailed,
    SwitchUnavailable,
    switchable_governor,
)
from paceline.foundation.workloads import (
    Prompt,
    RequestSpec,
    SamplingSettings,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)
from paceline.workbench.bench.quick.config import QuickConfig
from paceline.workbench.bench.quick.estimate import HeldConcurrency, estimate_held
from paceline.workbench.bench.quick.gain_ratio import SpeculationGain, unknown_gain
from paceline.workbench.bench.quick.levels import Window, next_level
from paceline.workbench.bench.quick.speculation import measure_gain
from paceline.workbench.bench.quick.window import longest_window_s, run_window

_GAIN_FRACTION = 0.25
"""Of the time, for speculation, where it can be switched."""
_MAX_OVERRUN = 1.4
"""Of the time: a round of speculation on and off that would end later is not begun."""
_ANSWERS_PER_ROUND = 8
"""Four blocks of two waves, one after the other."""


@dataclass(slots=True)
class QuickResult:
    """Everything that the report needs. An interrupted measurement is filled as far as it came."""

    config: QuickConfig
    environment: Environment
    windows: list[Window] = field(default_factory=list)
    single: RequestRecord | None = None
    """One request alone, after a first one that warmed the server up."""
    gain: SpeculationGain = field(default_factory=lambda: unknown_gain("not measured"))
    duration_s: float = 0.0
    is_interrupted: bool = False
    restore_failure: str | None = None
    """Which governors keep a setting of the measurement, and the commands that restore them."""
    notes: list[str] = field(default_factory=list)

    @property
    def held(self) -> HeldConcurrency | None:
        return estimate_held(self.windows, self.config.ttft_limit_s, self.config.seed)


async def measure_quickly(
    result: QuickResult, api_key: str | None, admin_key: str | None, on_window: Callable[[], None]
) -> None:
    """Carry out the measurement and fill it in.

    Raises BenchError or WorkloadError if it cannot take place. Cancellation restores the governor
    and leaves in `result` what was measured.
    """
    clock = time.perf_counter
    start_s = clock()
    config = result.config
    server = parse_server_url(config.url)
    prompts = None if config.needs_workload else _load_prompts(config)
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**20,
        ) as session:
            model = config.model or await fetch_model(session, server, api_key)
            version = await fetch_version(session, server)
            config = replace(config, model=model)
            if prompts is None:
                suited = await find_suited_workload(session, server, api_key, model)
                config = replace(config, workload=suited.name)
                result.notes.append(f"the prompts are the workload {suited.name}: {suited.reason}")
                prompts = _load_prompts(config)
            result.config = config
            result.environment = replace(result.environment, vllm_server=version)
            sampling = SamplingSettings(
                model, config.temperature, None, config.max_tokens, config.seed, {}
            )
            sender = SessionSender(session, server, api_key, clock)
            form = await find_form(sender, prompts, sampling, clock)
            _note_form(result, form.as_chat, form.with_salt, prompts)
            specs = build_forever(prompts, sampling, form)
            result.single = await sender.send(next(specs), 0.0, clock())
            gain_s = _GAIN_FRACTION * config.seconds if config.admin_url is not None else 0.0
            await _search(result, sender, specs, start_s + config.seconds - gain_s, on_window)
            left_s = start_s + _MAX_OVERRUN * config.seconds - clock()
            answer_s = _answer_s(result)
            if gain_s and answer_s is not None and _ANSWERS_PER_ROUND * answer_s > left_s:
                result.gain = unknown_gain(
                    f"answers take {answer_s:.1f} s, too long for the time; give --seconds more"
                )
                return
            await _measure_speculation(result, session, sender, specs, admin_key, gain_s)
    finally:
        result.duration_s = clock() - start_s


async def _search(
    result: QuickResult,
    sender: SessionSender,
    specs: Iterator[RequestSpec],
    end_s: float,
    on_window: Callable[[], None],
) -> None:
    config = result.config
    clock = time.perf_counter
    answer_s = result.single.e2e_s if result.single is not None and result.single.is_ok else None
    while clock() + longest_window_s(config.ttft_limit_s) < end_s:
        level = next_level(result.windows, config.ttft_limit_s, config.max_concurrency)
        if level is None:
            return
        window = await run_window(sender, specs, level, answer_s, config.ttft_limit_s, clock)
        result.windows.append(window)
        answer_s = window.answer_s or answer_s
        on_window()


async def _measure_speculation(
    result: QuickResult,
    session: aiohttp.ClientSession,
    sender: SessionSender,
    specs: Iterator[RequestSpec],
    admin_key: str | None,
    seconds: float,
) -> None:
    admin_url, held = result.config.admin_url, result.held
    if admin_url is None:
        result.gain = unknown_gain(
            "speculation can be switched only through Paceline's admin port; give --admin-url"
        )
        return
    concurrency = max(1, (held.value if held is not None else 1) // 2)
    try:
        async with switchable_governor(
            session, parse_server_url(admin_url), admin_key, result.config.model
        ) as switch:
            result.gain = await measure_gain(
                switch, sender, specs, concurrency, seconds, time.perf_counter
            )
    except SwitchUnavailable as failure:
        result.gain = unknown_gain(str(failure))
    except RestoreFailed as failure:
        result.restore_failure = str(failure)
        result.gain = unknown_gain("the governors could not be restored")
    except asyncio.CancelledError as cancellation:
        if isinstance(cancellation.__cause__, RestoreFailed):
            result.restore_failure = str(cancellation.__cause__)
        raise


def _answer_s(result: QuickResult) -> float | None:
    """The longest median answer of the windows so far; None without one."""
    return max((w.answer_s for w in result.windows if w.answer_s is not None), default=None)


def _note_form(result: QuickResult, as_chat: bool, with_salt: bool, prompts: list[Prompt]) -> None:
    if prompts[0].messages is not None and not as_chat:
        result.notes.append("the model answers no chats: the prompts were sent as plain text")
    if not with_salt:
        result.notes.append(
            "the server refuses cache_salt: repeated prompts may be answered from its prefix "
            "cache, which shortens the time to first token"
        )


def _load_prompts(config: QuickConfig) -> list[Prompt]:
    if config.prompts_file is not None:
        return shuffle_prompts(load_prompt_file(Path(config.prompts_file)), config.seed)
    assert config.workload is not None
    return load_workload(config.workload).prompts(config.seed)

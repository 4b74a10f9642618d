"""Requests at several loads, so that metrics show how step times depend on the load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp

from paceline.foundation.load.quick_requests import SessionSender, as_text, build_forever, find_form
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.servers.described import fetch_model
from paceline.foundation.workloads import (
    Prompt,
    RequestSpec,
    SamplingSettings,
    load_prompt_file,
    load_workload,
    shuffle_prompts,
)
from paceline.operations.doctor.probing.settings import ProbeSettings
from paceline.operations.doctor.values import OnStage

_AFTER_FAILURE_S = 0.05
"""A server that refuses is not flooded."""


@dataclass(slots=True)
class Answers:
    """Sums over the complete answers of some time."""

    num: int = 0
    tokens: int = 0
    """As the server counted them; 0 where it does not."""
    seconds: float = 0.0
    """From sending to the end."""
    squared_seconds: float = 0.0

    def add(self, record: RequestRecord) -> None:
        """Add a request that has ended; one without a complete answer is passed over."""
        if record.is_ok:
            self.num += 1
            self.tokens += record.output_tokens or 0
            seconds = record.finished_s - record.sent_s
            self.seconds += seconds
            self.squared_seconds += seconds**2


@dataclass(slots=True)
class ProbeLoad:
    """A source of requests that the server accepts, and the count of what was sent."""

    sender: SessionSender
    specs: Iterator[RequestSpec]
    model: str
    workload: str
    temperature: float
    texts: tuple[str, ...]
    """The prompts as plain text."""
    num_requests: int = 0
    num_failed: int = 0
    at_full_load: Answers = field(default_factory=Answers)
    """Of the highest load of `send_load`."""
    full_load_s: tuple[float, float] = (0.0, 0.0)
    """Its begin and end, on the monotonic clock."""

    def count(self, record: RequestRecord) -> None:
        """Count a request that has ended, or was cut off."""
        self.num_requests += 1
        self.num_failed += record.outcome not in (RequestOutcome.OK, RequestOutcome.TIMEOUT)


async def prepare_load(session: aiohttp.ClientSession, settings: ProbeSettings) -> ProbeLoad:
    """Find a model and a form of requests.

    Raises BenchError if the server answers none, WorkloadError if the prompts cannot be read.
    """
    clock = time.perf_counter
    model = settings.model or await fetch_model(session, settings.data_url, settings.api_key)
    sender = SessionSender(session, settings.data_url, settings.api_key, clock)
    temperature = settings.effective_temperature
    sampling = SamplingSettings(model, temperature, None, settings.max_tokens, 0, {})
    prompts = _prompts(settings)
    form = await find_form(sender, prompts, sampling, clock)
    return ProbeLoad(
        sender=sender,
        specs=build_forever(prompts, sampling, form),
        model=model,
        workload=settings.workload_label,
        temperature=temperature,
        texts=tuple(as_text(prompt) for prompt in prompts),
    )


def _prompts(settings: ProbeSettings) -> list[Prompt]:
    if settings.prompts_file is not None:
        return shuffle_prompts(load_prompt_file(settings.prompts_file), 0)
    return load_workload(settings.workload).prompts(0)


async def send_load(
    load: ProbeLoad, settings: ProbeSettings, on_stage: OnStage = lambda stage: None
) -> None:
    """Closed loops of rising concurrency, each for its part of the time.

    What is in flight at the end of a part is cut off: slow answers do not prolong the probe.
    """
    levels = levels_up_to(settings.concurrency)
    for level in levels:
        seconds = settings.seconds / len(levels)
        on_stage(f"observing with requests, {level} at a time, for {seconds:g} s")
        begin_s = time.monotonic()
        load.at_full_load = await hold_load(load, level, seconds)
        load.full_load_s = (begin_s, time.monotonic())


async def hold_load(load: ProbeLoad, level: int, seconds: float) -> Answers:
    """`level` requests in flight; what is in flight at the end is cut off."""
    answers = Answers()
    clock = time.perf_counter
    zero_s = clock()

    async def fill_slot() -> None:
        while (now_s := clock() - zero_s) < seconds:
            record = await load.sender.send_until(next(load.specs), now_s, zero_s, seconds)
            load.count(record)
            answers.add(record)
            if not record.is_ok:
                await asyncio.sleep(_AFTER_FAILURE_S)

    async with asyncio.TaskGroup() as slots:
        for _ in range(level):
            slots.create_task(fill_slot())
    return answers


def levels_up_to(concurrency: int) -> list[int]:
    """Four loads at most, the last one `concurrency`.

    >>> levels_up_to(8)
    [1, 2, 4, 8]
    """
    return sorted({max(1, concurrency // divisor) for divisor in (8, 4, 2, 1)})

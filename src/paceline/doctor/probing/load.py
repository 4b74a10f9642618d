"""Requests at several loads, so that metrics show how step times depend on the load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp

from paceline.bench.load.records import RequestOutcome, RequestRecord
from paceline.bench.quick.requests import SessionSender, build_forever, find_form
from paceline.bench.run.server import fetch_model
from paceline.doctor.probing.settings import ProbeSettings
from paceline.workloads import RequestSpec, SamplingSettings, load_workload

WORKLOAD = "hard"
"""Text that drafts fit badly: it shows losses that predictable text hides."""
_AFTER_FAILURE_S = 0.05
"""A server that refuses is not flooded."""


@dataclass(slots=True)
class ProbeLoad:
    """A source of requests that the server accepts, and the count of what was sent."""

    sender: SessionSender
    specs: Iterator[RequestSpec]
    model: str
    workload: str = WORKLOAD
    num_requests: int = 0
    num_failed: int = 0

    def count(self, record: RequestRecord) -> None:
        """Count a request that has ended, or was cut off."""
        self.num_requests += 1
        self.num_failed += record.outcome not in (RequestOutcome.OK, RequestOutcome.TIMEOUT)


async def prepare_load(session: aiohttp.ClientSession, settings: ProbeSettings) -> ProbeLoad:
    """Find a model and a form of requests. Raises BenchError if the server answers none."""
    clock = time.perf_counter
    model = settings.model or await fetch_model(session, settings.data_url, settings.api_key)
    sender = SessionSender(session, settings.data_url, settings.api_key, clock)
    sampling = SamplingSettings(model, 0.0, None, settings.max_tokens, 0, {})
    prompts = load_workload(WORKLOAD).prompts(0)
    form = await find_form(sender, prompts, sampling, clock)
    return ProbeLoad(sender, build_forever(prompts, sampling, form), model)


async def send_load(load: ProbeLoad, settings: ProbeSettings) -> None:
    """Closed loops of rising concurrency, each for its part of the time.

    What is in flight at the end of a part is cut off: slow answers do not prolong the probe.
    """
    levels = levels_up_to(settings.concurrency)
    for level in levels:
        await _hold(load, level, settings.seconds / len(levels))


async def _hold(load: ProbeLoad, level: int, seconds: float) -> None:
    clock = time.perf_counter
    zero_s = clock()

    async def fill_slot() -> None:
        while (now_s := clock() - zero_s) < seconds:
            record = await load.sender.send_until(next(load.specs), now_s, zero_s, seconds)
            load.count(record)
            if not record.is_ok:
                await asyncio.sleep(_AFTER_FAILURE_S)

    async with asyncio.TaskGroup() as slots:
        for _ in range(level):
            slots.create_task(fill_slot())


def levels_up_to(concurrency: int) -> list[int]:
    """Four loads at most, the last one `concurrency`.

    >>> levels_up_to(8)
    [1, 2, 4, 8]
    """
    return sorted({max(1, concurrency // divisor) for divisor in (8, 4, 2, 1)})

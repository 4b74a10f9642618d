"""Carry out the runs of a sweep, one after the other."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.load.config import RunConfig
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.outcome import RunResult
from paceline.workbench.bench.run.repeat import Progress
from paceline.workbench.bench.sweep.rates import RateStep, is_rate_kept, next_rate, served_fraction

MAX_SEARCHED = 12
"""Rates that a search tries at most: from one request in flight it reaches 256 times its rate and
finds the end within 25 %."""
_NUM_PROBES = 4
"""Requests, one after the other, whose latency gives the first rate of a search."""


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One rate with its run."""

    rate_per_s: float
    is_kept: bool
    """Whether the server kept the rate: nothing piled up."""
    served_fraction: float | None
    """Successful requests that ended during the arrivals / requests that should have; None if none
    should have, so that it is not known whether the rate is kept."""
    result: RunResult


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The steps in the order in which they were measured."""

    steps: tuple[SweepStep, ...]
    num_skipped: int
    """Given rates above one that was not kept; they were not measured."""
    interrupted: bool


async def measure_sweep(
    config: RunConfig,
    rates_per_s: Sequence[float],
    api_key: str | None,
    argv: Sequence[str],
    progress: Progress,
    stop: asyncio.Event,
) -> SweepResult:
    """Measure these rates in ascending order until one is not kept; without rates, search.

    `config` is an open-loop run; its rate is replaced. Every step has a seed of its own, so that
    made prompts are new to the server's prefix cache. Raises as `measure` does.
    """
    steps: list[SweepStep] = []

    async def run_step(rate_per_s: float) -> SweepStep:
        step_config = dataclasses.replace(
            config, rate_per_s=rate_per_s, seed=config.seed + len(steps)
        )
        result = await measure(step_config, api_key, argv, progress, stop)
        step = SweepStep(
            rate_per_s, is_rate_kept(result.records), served_fraction(result.records), result
        )
        steps.append(step)
        return step

    def is_over(step: SweepStep) -> bool:
        return step.result.interrupted or not step.result.is_valid or stop.is_set()

    if rates_per_s:
        ascending = sorted(set(rates_per_s))
        for rate_per_s in ascending:
            step = await run_step(rate_per_s)
            if is_over(step) or not step.is_kept:
                break
        return _result(steps, len(ascending) - len(steps))
    first_per_s = await _first_rate(config, api_key, argv, progress, stop)
    while len(steps) < MAX_SEARCHED and not stop.is_set():
        found = [RateStep(s.rate_per_s, s.is_kept) for s in steps]
        rate = next_rate(found, first_per_s)
        if rate is None:
            break
        step = await run_step(rate)
        # At a lower rate the run is too short, too.
        if is_over(step) or step.served_fraction is None:
            break
    return _result(steps, 0)


async def _first_rate(
    config: RunConfig,
    api_key: str | None,
    argv: Sequence[str],
    progress: Progress,
    stop: asyncio.Event,
) -> float:
    """The rate of one request in flight on average."""
    alone = dataclasses.replace(
        config,
        concurrency=1,
        rate_per_s=None,
        burstiness=1.0,
        max_in_flight=None,
        num_requests=_NUM_PROBES,
        duration_s=None,
        seed=config.seed + MAX_SEARCHED,
    )
    result = await measure(alone, api_key, argv, progress, stop)
    return result.summary.requests_per_s or 1.0


def _result(steps: Sequence[SweepStep], num_skipped: int) -> SweepResult:
    interrupted = any(step.result.interrupted for step in steps)
    return SweepResult(tuple(steps), num_skipped, interrupted)

"""Carry out one repeat: the load of every phase, while event loop and counters are watched."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from paceline.foundation.load.arrivals import schedule_arrivals
from paceline.foundation.load.driver import LoadRun, Sender, Stretch
from paceline.foundation.load.loads import ClosedLoop, RecordedArrivals
from paceline.foundation.load.loop_lag import LoopLag, watched_loop
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.workloads import Prompt, RequestSpec, SamplingSettings, build_spec
from paceline.workbench.bench.results.counters import CounterReading
from paceline.workbench.bench.run.plan import PhasePlan

ReadCounters = Callable[[], Awaitable[CounterReading | None]]


class Progress(Protocol):
    """Receives the progress of a run. Its methods must return at once."""

    def begin(self, phase: str, num_requests: int | None) -> None:
        """A phase begins. `num_requests` is None when only time bounds the phase."""
        ...

    def advance(self, record: RequestRecord) -> None:
        """A request of the phase has ended."""
        ...


@dataclass(frozen=True, slots=True)
class RepeatOutcome:
    """What one repeat saw."""

    records: tuple[RequestRecord, ...]
    num_unfinished: int
    """Requests in flight when the run was interrupted."""
    lag: LoopLag
    readings: tuple[CounterReading | None, ...]
    """Counters at the start of each phase and after the last, (num_phases + 1,); fewer if
    interrupted."""
    interrupted: bool


class PhaseSource:
    """The requests of one phase over all repeats. Each is numbered once; prompts repeat in order.

    A trace begins anew in each repeat, at its recorded times.
    """

    def __init__(self, phase: PhasePlan, sampling: SamplingSettings) -> None:
        self._phase = phase
        self._sampling = sampling
        self._numbers = itertools.count()
        self._prompts = _repeated(phase.prompts)

    def specs(self) -> Iterator[RequestSpec]:
        """The requests of the next repeat; endless, unless each prompt is sent once."""
        prompts = self._phase.prompts if self._phase.is_once else self._prompts
        for prompt in prompts:
            yield build_spec(prompt, self._sampling, next(self._numbers))


def _repeated(prompts: Sequence[Prompt]) -> Iterator[Prompt]:
    """The prompts again and again, none of them kept, as `itertools.cycle` would."""
    while prompts:
        yield from prompts


async def run_repeat(
    phases: Sequence[PhasePlan],
    sources: Sequence[PhaseSource],
    sender: Sender,
    read_counters: ReadCounters,
    progress: Progress,
    *,
    number: int,
    stop: asyncio.Event,
) -> RepeatOutcome:
    """Run all phases in turn; requests in flight at the end of a phase end beside the next one.

    When `stop` is set, requests in flight are cancelled and what has ended is returned.
    """
    clock = time.perf_counter
    before = await read_counters()
    async with watched_loop(clock) as lag:
        run = LoadRun(sender, clock, progress.advance, repeat=number)
        readings = [before]
        work = [asyncio.create_task(_run_phases(run, phases, sources, number))]
        work.append(
            asyncio.create_task(_watch_phases(run, phases, read_counters, progress, readings))
        )
        interrupted = await _finish_or_stop(work, stop)
    if not interrupted:
        readings.append(await read_counters())
    return RepeatOutcome(
        records=tuple(run.records),
        num_unfinished=run.num_unfinished if interrupted else 0,
        lag=lag,
        readings=tuple(readings),
        interrupted=interrupted,
    )


async def _finish_or_stop(work: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> bool:
    """Await all work, or cancel it once `stop` is set; returns whether it was stopped."""
    stopping = asyncio.create_task(stop.wait())
    everything = asyncio.gather(*work)
    futures: list[asyncio.Future[Any]] = [everything, stopping]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        if not everything.done():
            return True
        await everything
        return False
    finally:
        for task in (stopping, *work):
            task.cancel()
        await asyncio.gather(stopping, everything, *work, return_exceptions=True)


async def _run_phases(
    run: LoadRun, phases: Sequence[PhasePlan], sources: Sequence[PhaseSource], repeat: int
) -> None:
    async with asyncio.TaskGroup() as running:
        for number, (phase, source) in enumerate(zip(phases, sources, strict=True)):
            stretch = Stretch(
                source.specs(), number, phase.start_s, phase.end_s, phase.num_requests
            )
            running.create_task(_run_phase(run, phase, stretch, repeat))


async def _run_phase(run: LoadRun, phase: PhasePlan, stretch: Stretch, repeat: int) -> None:
    load = phase.load
    if isinstance(load, ClosedLoop):
        await run.closed_loop(stretch, load.concurrency)
        return
    if isinstance(load, RecordedArrivals):
        offsets_s = list(phase.offsets_s)
    else:
        num_sessions = len(phase.prompts) if phase.is_once else phase.num_requests
        schedule = schedule_arrivals(load, phase.seed + repeat, num_sessions, phase.duration_s)
        offsets_s = schedule.tolist()
    await run.open_loop(stretch, offsets_s, load.max_in_flight)


async def _watch_phases(
    run: LoadRun,
    phases: Sequence[PhasePlan],
    read_counters: ReadCounters,
    progress: Progress,
    readings: list[CounterReading | None],
) -> None:
    """Announce each phase when it begins, and read the counters between two phases."""
    for number, phase in enumerate(phases):
        await run.sleep_until(phase.start_s)
        progress.begin(phase.name, phase.num_requests)
        if number:
            readings.append(await read_counters())

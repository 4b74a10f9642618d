"""Send the requests of a trace, phase after phase.

A phase of a closed loop keeps its number of requests in flight, those of the phase before included:
after a fall of the load no request is sent until enough have ended. An open loop sends at the times
of a Poisson process. Requests in flight at the end of a phase run to their end.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from paceline.foundation.load.arrivals import poisson_arrivals
from paceline.foundation.load.client import Clock
from paceline.foundation.load.config import BenchError
from paceline.foundation.load.driver import Sender
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.shifting_trace import TracePhase
from paceline.workbench.bench.results.counters import CounterReading
from paceline.workbench.bench.trace.requests import RequestSource

MAX_FAILURES_IN_A_ROW = 20
"""More mean that the server is gone; a closed loop would fail as fast as it can send."""

ReadCounters = Callable[[], Awaitable[CounterReading | None]]
OnPhase = Callable[[TracePhase], None]


@dataclass(slots=True)
class PhaseLog:
    """What a run has seen so far. Times are seconds from the run's start."""

    records: list[RequestRecord] = field(default_factory=list)
    """Requests that ended, in the order of their ends."""
    starts_s: list[float] = field(default_factory=list)
    """Of every phase that began."""
    ends_s: list[float] = field(default_factory=list)
    """Of every phase that ended."""
    readings: dict[tuple[int, bool], CounterReading | None] = field(default_factory=dict)
    """Counters at the start of a phase (its number, False) and at its end (its number, True)."""
    num_unfinished: int = 0


class PhaseRun:
    """Drives phases on one server; `log` is filled on the way, so that a cancelled run has it."""

    def __init__(
        self,
        sender: Sender,
        source: RequestSource,
        clock: Clock,
        log: PhaseLog,
        *,
        zero_s: float,
        seed: int,
    ) -> None:
        """Times of the log count from the clock reading `zero_s`."""
        self._sender = sender
        self._source = source
        self._clock = clock
        self._log = log
        self._seed = seed
        self._zero_s = zero_s
        self._phase_number = 0
        self._target = 0
        """Requests to keep in flight; 0 in an open loop."""
        self._num_in_flight = 0
        self._ended_tokens = 0
        """Output tokens of the answers that ended in the phase."""
        self._num_failed_in_a_row = 0
        self._changed = asyncio.Event()
        """A request has ended."""

    async def run(
        self,
        phases: Sequence[tuple[int, TracePhase]],
        read_counters: ReadCounters,
        on_phase: OnPhase,
    ) -> None:
        """These phases, by their numbers in the trace, and then the requests still in flight.

        BenchError if the server is gone.
        """
        start_s = self._elapsed_s()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for number, phase in phases:
                    on_phase(phase)
                    self._read(number, False, read_counters)
                    start_s = await self._run_phase(number, phase, start_s)
                    self._read(number, True, read_counters)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            self._log.num_unfinished = self._num_in_flight

    async def _run_phase(self, number: int, phase: TracePhase, start_s: float) -> float:
        """Returns when the phase ended."""
        self._log.starts_s.append(start_s)
        self._phase_number, self._ended_tokens = number, 0
        self._target = phase.concurrency or 0
        self._fill(start_s)
        if phase.duration_s is not None:
            if phase.rate_per_s is not None:
                await self._send_at_rate(number, phase.rate_per_s, start_s, phase.duration_s)
            await self._sleep_until(start_s + phase.duration_s)
            end_s = start_s + phase.duration_s
        else:
            while self._ended_tokens < (phase.output_tokens or 0):
                self._changed.clear()
                await self._changed.wait()
            end_s = self._elapsed_s()
        self._target = 0
        self._log.ends_s.append(end_s)
        return end_s

    def _read(self, number: int, is_end: bool, read_counters: ReadCounters) -> None:
        """Read the counters in a task: the load does not wait for it."""

        async def read() -> None:
            self._log.readings[number, is_end] = await read_counters()

        self._tasks.create_task(read())

    async def _send_at_rate(
        self, number: int, rate_per_s: float, start_s: float, duration_s: float
    ) -> None:
        offsets_s = poisson_arrivals(rate_per_s, self._seed + number, duration_s=duration_s)
        for offset_s in offsets_s.tolist():
            await self._sleep_until(start_s + offset_s)
            self._start(start_s + offset_s)

    def _fill(self, due_s: float) -> None:
        """Send as many requests as the closed loop lacks; they are due at `due_s`."""
        while self._num_in_flight < self._target:
            self._start(due_s)

    def _start(self, due_s: float) -> None:
        self._num_in_flight += 1
        self._tasks.create_task(self._send(self._phase_number, due_s))

    async def _send(self, phase_number: int, due_s: float) -> None:
        spec = self._source.next_request(phase_number)
        record = await self._sender.send(spec, due_s, self._zero_s)
        self._num_in_flight -= 1
        self._log.records.append(dataclasses.replace(record, phase=phase_number))
        self._judge(record)
        self._ended_tokens += record.output_tokens or 0
        self._changed.set()
        self._fill(self._elapsed_s())

    def _judge(self, record: RequestRecord) -> None:
        self._num_failed_in_a_row = 0 if record.is_ok else self._num_failed_in_a_row + 1
        if self._num_failed_in_a_row >= MAX_FAILURES_IN_A_ROW:
            raise BenchError(
                f"{MAX_FAILURES_IN_A_ROW} requests in a row failed, the last one with: "
                f"{record.error}"
            )

    def _elapsed_s(self) -> float:
        return self._clock() - self._zero_s

    async def _sleep_until(self, due_s: float) -> None:
        """Sleep until `due_s`, never less; timers may wake early."""
        while (wait_s := due_s - self._elapsed_s()) > 0:  # noqa: ASYNC110 - waits for time
            await asyncio.sleep(wait_s)

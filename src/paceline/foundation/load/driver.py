"""Drive requests at a server: closed loop by slots, or open loop by a schedule.

The driver knows times and order only; a `Sender` knows how to send a request.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.foundation.load.client import Clock
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.workloads import RequestSpec

OnRecord = Callable[[RequestRecord], None]


class Sender(Protocol):
    """Sends one request."""

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        """Send now and await the end. A failed request does not raise; its record says why."""
        ...


@dataclass(slots=True)
class Stretch:
    """A stretch of constant load: its requests and its bounds. Times count from the run's start."""

    specs: Iterator[RequestSpec]
    """First requests of sessions, in order. Their later turns follow the answers."""
    number: int = 0
    """Stamped on the records as their phase."""
    start_s: float = 0.0
    end_s: float | None = None
    """No request is due from here on; requests in flight are awaited."""
    num_requests_left: int | None = None
    """How many more requests may be sent, later turns included; None: any number."""

    def admits(self, due_s: float) -> bool:
        """Whether a request that is due now may be sent; takes it from the number that is left."""
        if self.end_s is not None and due_s >= self.end_s:
            return False
        if self.num_requests_left is not None:
            if self.num_requests_left == 0:
                return False
            self.num_requests_left -= 1
        return True


class LoadRun:
    """The requests of one run while they are sent; cancelling leaves those that have ended."""

    def __init__(self, sender: Sender, clock: Clock, on_record: OnRecord, repeat: int = 0) -> None:
        """The run's time begins now."""
        self._sender = sender
        self._clock = clock
        self._on_record = on_record
        self._repeat = repeat
        self._zero_s = clock()
        self._records: list[RequestRecord] = []
        self._num_started = 0

    @property
    def records(self) -> list[RequestRecord]:
        """Requests that have ended, by phase, index and turn."""
        return sorted(self._records, key=lambda r: (r.phase, r.index, r.turn))

    @property
    def num_unfinished(self) -> int:
        """Requests that were sent and have not ended."""
        return self._num_started - len(self._records)

    def elapsed_s(self) -> float:
        """Time since the run began."""
        return self._clock() - self._zero_s

    async def sleep_until(self, due_s: float) -> None:
        """Sleep until `due_s`, never less, and yield at least once so that new tasks can start.

        An event loop may wake a sleeper early (uvloop's timers count whole milliseconds).
        """
        await asyncio.sleep(max(0.0, due_s - self.elapsed_s()))
        while (wait_s := due_s - self.elapsed_s()) > 0:  # noqa: ASYNC110 - the loop waits for time, not for an event
            await asyncio.sleep(wait_s)

    async def closed_loop(self, stretch: Stretch, concurrency: int) -> None:
        """Keep `concurrency` sessions going; the next is due when the previous one has ended."""
        if stretch.start_s > 0:
            await self.sleep_until(stretch.start_s)

        async def fill_slot() -> None:
            due_s = stretch.start_s
            while stretch.admits(due_s):
                spec = next(stretch.specs, None)
                if spec is None:
                    return
                await self._run_session(spec, due_s, stretch, None)
                due_s = self.elapsed_s()

        async with asyncio.TaskGroup() as slots:
            for _ in range(concurrency):
                slots.create_task(fill_slot())

    async def open_loop(
        self, stretch: Stretch, offsets_s: Iterable[float], max_in_flight: int | None = None
    ) -> None:
        """Start a session at each offset from the stretch's start, and await all of them.

        With `max_in_flight`, requests beyond wait for one to end; the wait counts in their latency.
        """
        slots = None if max_in_flight is None else asyncio.Semaphore(max_in_flight)
        async with asyncio.TaskGroup() as in_flight:
            for offset_s, spec in zip(offsets_s, stretch.specs, strict=False):
                due_s = stretch.start_s + offset_s
                await self.sleep_until(due_s)
                if not stretch.admits(due_s):
                    return
                in_flight.create_task(self._run_session(spec, due_s, stretch, slots))

    async def _run_session(
        self,
        spec: RequestSpec,
        due_s: float,
        stretch: Stretch,
        slots: asyncio.Semaphore | None,
    ) -> None:
        """Send the first request, which the stretch has admitted, then the turns that follow.

        A failed request ends the session.
        """
        session_due_s = due_s
        while True:
            record = await self._send(spec, due_s, stretch.number, slots)
            following = spec.next_turn
            if following is None or not record.is_ok:
                return
            due_s = following.due_s(self.elapsed_s(), session_due_s)
            spec = following.request(record.answer or "")
            await self.sleep_until(due_s)
            if not stretch.admits(due_s):
                return

    async def _send(
        self, spec: RequestSpec, due_s: float, phase: int, slots: asyncio.Semaphore | None
    ) -> RequestRecord:
        slot_wait_s = 0.0
        if slots is not None:
            asked_s = self._clock()
            await slots.acquire()
            slot_wait_s = self._clock() - asked_s
        self._num_started += 1
        try:
            record = await self._sender.send(spec, due_s, self._zero_s)
        finally:
            if slots is not None:
                slots.release()
        if phase or self._repeat or slot_wait_s:
            record = dataclasses.replace(
                record, phase=phase, repeat=self._repeat, slot_wait_s=slot_wait_s
            )
        kept = record if record.answer is None else dataclasses.replace(record, answer=None)
        self._records.append(kept)
        self._on_record(kept)
        return record


async def run_closed_loop(
    sender: Sender,
    specs: Iterator[RequestSpec],
    concurrency: int,
    duration_s: float | None,
    clock: Clock,
    on_record: OnRecord,
) -> list[RequestRecord]:
    """Keep `concurrency` requests in flight until `specs` ends or `duration_s` has passed.

    A request is due when the previous one in its slot has ended. After `duration_s` no request is
    started; requests in flight are awaited and counted.
    """
    run = LoadRun(sender, clock, on_record)
    await run.closed_loop(Stretch(specs, end_s=duration_s), concurrency)
    return run.records


async def run_open_loop(
    sender: Sender,
    specs: Iterable[RequestSpec],
    offsets_s: Sequence[float],
    clock: Clock,
    on_record: OnRecord,
) -> list[RequestRecord]:
    """Send one request at each offset, however many are in flight, and await all of them."""
    run = LoadRun(sender, clock, on_record)
    await run.open_loop(Stretch(iter(specs)), offsets_s)
    return run.records

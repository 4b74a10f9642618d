"""Drive requests at a server: closed loop by slots, or open loop by a schedule.

The driver knows times and order only; a `Sender` knows how to send a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from paceline.bench.load.client import Clock
from paceline.bench.load.records import RequestRecord
from paceline.workloads import RequestSpec

OnRecord = Callable[[RequestRecord], None]


class Sender(Protocol):
    """Sends one request."""

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        """Send now and await the end. A failed request does not raise; its record says why."""
        ...


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
    zero_s = clock()
    records: list[RequestRecord] = []

    async def fill_slot() -> None:
        due_s = 0.0
        while duration_s is None or due_s < duration_s:
            spec = next(specs, None)
            if spec is None:
                return
            record = await sender.send(spec, due_s, zero_s)
            due_s = clock() - zero_s
            records.append(record)
            on_record(record)

    async with asyncio.TaskGroup() as slots:
        for _ in range(concurrency):
            slots.create_task(fill_slot())
    return sorted(records, key=lambda record: record.index)


async def run_open_loop(
    sender: Sender,
    specs: Iterable[RequestSpec],
    offsets_s: Sequence[float],
    clock: Clock,
    on_record: OnRecord,
) -> list[RequestRecord]:
    """Send one request at each offset, however many are in flight, and await all of them."""
    zero_s = clock()
    records: list[RequestRecord] = []

    async def send_one(spec: RequestSpec, due_s: float) -> None:
        record = await sender.send(spec, due_s, zero_s)
        records.append(record)
        on_record(record)

    async with asyncio.TaskGroup() as in_flight:
        for spec, due_s in zip(specs, offsets_s, strict=False):
            await _sleep_until(due_s, zero_s, clock)
            in_flight.create_task(send_one(spec, due_s))
    return sorted(records, key=lambda record: record.index)


async def _sleep_until(due_s: float, zero_s: float, clock: Clock) -> None:
    """Sleep until `due_s`, never less, and yield at least once so that new tasks can start.

    An event loop may wake a sleeper early (uvloop's timers count whole milliseconds).
    """
    await asyncio.sleep(max(0.0, due_s - (clock() - zero_s)))
    while (wait_s := due_s - (clock() - zero_s)) > 0:  # noqa: ASYNC110 - the loop waits for time, not for an event
        await asyncio.sleep(wait_s)

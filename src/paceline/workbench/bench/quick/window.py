"""One concurrency for some seconds: every slot sends its next request when its last has ended.

The slots start one after the other over the time of an answer, as they would be spread in the long
run. Requests in flight at the end of the window are cut off. A request that begins within the limit
before the end is not judged: of those, only the fast ones would be known. Where the window is long
enough, only requests that begin after all slots have started are judged.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.workloads import RequestSpec
from paceline.workbench.bench.quick.levels import Window

MAX_RAMP_S = 2.0
MIN_HOLD_S = 2.0
MAX_HOLD_S = 3.0
"""Chosen empirically: with these, ten windows fit into a minute."""
_MIN_JUDGED = 5


def longest_window_s(limit_s: float) -> float:
    """The most that a window can take with this limit on the time to first token."""
    return MAX_RAMP_S + MAX_HOLD_S + limit_s


class DeadlineSender(Protocol):
    """Sends a request that is cut off at a deadline."""

    async def send_until(
        self, spec: RequestSpec, scheduled_s: float, zero_s: float, deadline_s: float
    ) -> RequestRecord:
        """Send now; the outcome is TIMEOUT if the answer has not ended by `deadline_s`.

        All times but `zero_s` count from `zero_s`. Failures do not raise.
        """
        ...


async def run_window(
    sender: DeadlineSender,
    specs: Iterator[RequestSpec],
    level: int,
    answer_s: float | None,
    limit_s: float,
    clock: Callable[[], float],
) -> Window:
    """Apply the level; `answer_s` is the expected time of an answer, None if it is unknown."""
    expected_s = answer_s if answer_s is not None else MIN_HOLD_S
    ramp_s = min(MAX_RAMP_S, expected_s) if level > 1 else 0.0
    end_s = ramp_s + max(MIN_HOLD_S, min(MAX_HOLD_S, 1.2 * expected_s)) + limit_s
    zero_s = clock()
    records: list[RequestRecord] = []

    async def fill_slot(number: int) -> None:
        due_s = ramp_s * number / level
        await asyncio.sleep(max(0.0, due_s - (clock() - zero_s)))
        due_s = clock() - zero_s
        while due_s < end_s:
            record = await sender.send_until(next(specs), due_s, zero_s, end_s)
            records.append(record)
            due_s = clock() - zero_s
            if not record.is_ok and record.outcome is not RequestOutcome.TIMEOUT:
                await asyncio.sleep(0.05)  # a server that refuses is not flooded

    async with asyncio.TaskGroup() as slots:
        for number in range(level):
            slots.create_task(fill_slot(number))
    return summarize_window(level, records, ramp_s, end_s, limit_s)


def summarize_window(
    level: int, records: Sequence[RequestRecord], ramp_s: float, end_s: float, limit_s: float
) -> Window:
    """The figures of a window that began at 0, had all slots from `ramp_s` on and ended at `end_s`.

    Only requests that begin at least the limit before the end count: of each it is known whether
    its first token came in time.
    """
    judged = [(record, ttft) for r in records for record, ttft in [(r, _ttft_s(r, end_s, limit_s))]]
    late = [ttft for record, ttft in judged if ttft is not None and record.scheduled_s >= ramp_s]
    everything = [ttft for _, ttft in judged if ttft is not None]
    ended = [r for r in records if r.is_ok]
    tokens = sum(r.output_tokens or 0 for r in ended)
    return Window(
        level=level,
        ttfts_s=tuple(late if len(late) >= max(_MIN_JUDGED, level // 2) else everything),
        output_tokens_per_s=tokens / end_s if tokens else None,
        num_errors=sum(_is_error(r) for r in records),
        answer_s=statistics.median(r.e2e_s for r in ended) if ended else None,
    )


def _ttft_s(record: RequestRecord, end_s: float, limit_s: float) -> float | None:
    """The time to first token, inf for a miss, None if the request is not judged."""
    if record.scheduled_s > end_s - limit_s:
        return None
    if _is_error(record):
        return math.inf
    if record.ttft_s is not None:
        return record.ttft_s
    if record.is_ok:
        return record.e2e_s  # an empty answer
    return math.inf


def _is_error(record: RequestRecord) -> bool:
    return not record.is_ok and record.outcome is not RequestOutcome.TIMEOUT

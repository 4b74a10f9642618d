"""Send a slice to one server and describe its answers: the record of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import aiohttp

from benchmarks.headline.arms import Arm
from benchmarks.headline.cells import Cell, priming_request, slice_requests
from benchmarks.headline.turns import Slice
from paceline.bench.load.arrivals import poisson_arrivals
from paceline.bench.load.client import StreamingClient
from paceline.bench.load.driver import run_closed_loop, run_open_loop
from paceline.bench.load.records import RequestRecord
from paceline.bench.results.counters import find_counters, finish_counters
from paceline.bench.run.config import parse_server_url
from paceline.bench.run.server import fetch_model
from paceline.workloads import RequestSpec


class HttpArm:
    """One arm's server, as the campaign sees it."""

    def __init__(
        self,
        arm: Arm,
        url: str,
        cells: Sequence[Cell],
        *,
        max_tokens: int,
        seed: int,
        timeout_s: float,
    ) -> None:
        self._arm = arm
        self._server = parse_server_url(url)
        self._cells = cells
        self._max_tokens = max_tokens
        self._seed = seed
        self._timeout_s = timeout_s

    def run(self, part: Slice, offered_per_s: float) -> dict[str, Any]:
        """Answer the slice; see `describe_turn`. Blocks until the last answer has ended."""
        return asyncio.run(self.answer(part, offered_per_s))

    async def answer(self, part: Slice, offered_per_s: float) -> dict[str, Any]:
        """`run` within a loop: await the end of the last answer."""
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        async with session:
            client = StreamingClient(session, self._server, None, self._timeout_s)
            model = await fetch_model(session, self._server, None)
            chosen = (part.cell, self._cells, part.number, model)
            specs = slice_requests(*chosen, max_tokens=self._max_tokens, seed=self._seed)
            first = priming_request(*chosen, max_tokens=self._max_tokens, seed=self._seed)
            if first is not None:
                await client.send(first, 0.0, time.perf_counter())
            before = (
                await find_counters(session, self._server, None) if self._arm.speculates else None
            )
            records = await _send(client, part, specs, offered_per_s, self._seed)
            described = describe_turn(records)
            if self._arm.speculates:
                speculation = await finish_counters(session, before)
                described["drafted_tokens"] = speculation.drafted_tokens
                described["accepted_tokens"] = speculation.accepted_tokens
            return described


async def _send(
    client: StreamingClient,
    part: Slice,
    specs: Sequence[RequestSpec],
    offered_per_s: float,
    seed: int,
) -> list[RequestRecord]:
    if part.cell.concurrency is None:
        draw = seed * 1_000_003 + part.number
        offsets_s = [float(s) for s in poisson_arrivals(offered_per_s, draw, len(specs))]
        return await run_open_loop(client, specs, offsets_s, time.perf_counter, _ignore)
    return await run_closed_loop(
        client, iter(specs), part.cell.concurrency, None, time.perf_counter, _ignore
    )


def describe_turn(records: Sequence[RequestRecord]) -> dict[str, Any]:
    """The turn as JSON values.

    `seconds` from the first request that was due to the end of the last answer; `requests` holds
    one row for each answer that did not fail: prompt tokens, output tokens, milliseconds to the
    first token and to the last one, both from the scheduled time, and the longest pause between two
    chunks (null below two chunks). The first token of an answer without text ended it: it came when
    the answer did.
    """
    answered = [r for r in records if r.is_ok and r.output_tokens]
    failed = [r for r in records if r not in answered]
    errors = [r.error or "an answer without usage" for r in failed]
    return {
        "seconds": max(r.finished_s for r in records) - min(r.scheduled_s for r in records),
        "max_dispatch_delay_ms": _ms(max(r.dispatch_delay_s for r in records)),
        "num_errors": len(errors),
        "error": errors[0] if errors else None,
        "requests": [
            [
                r.prompt_tokens,
                r.output_tokens,
                _ms(r.e2e_s if r.ttft_s is None else r.ttft_s),
                _ms(r.e2e_s),
                _ms(max(r.chunk_gaps_s)) if r.chunk_gaps_s else None,
            ]
            for r in answered
        ],
    }


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def _ignore(record: RequestRecord) -> None:
    """Turns are short; progress is shown by slice."""

"""Send a load to one server and describe its answers: the record of a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchmarks.headline.arms import Arm
from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.config import parse_server_url
from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.servers.described import fetch_model
from paceline.foundation.workloads import RequestSpec
from paceline.workbench.bench.results.counters import find_counters, finish_counters


@dataclass(frozen=True, slots=True)
class Load:
    """What a server answers in its turn."""

    requests: Sequence[RequestSpec]
    users: int
    """Requests in flight, in a closed loop."""
    priming: RequestSpec | None = None
    """Answered before the turn and not recorded."""


class HttpArm:
    """One arm's server."""

    def __init__(self, arm: Arm, url: str, timeout_s: float) -> None:
        self._arm = arm
        self._server = parse_server_url(url)
        self._timeout_s = timeout_s

    def run(self, load_for: Callable[[str], Load]) -> dict[str, Any]:
        """Answer the load for the server's model id; see `describe_turn`.

        Blocks until the last answer has ended. Failed requests do not raise.
        """
        return asyncio.run(self.answer(load_for))

    async def answer(self, load_for: Callable[[str], Load]) -> dict[str, Any]:
        """`run` within a loop: await the end of the last answer."""
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        async with session:
            client = StreamingClient(session, self._server, None, self._timeout_s)
            load = load_for(await fetch_model(session, self._server, None))
            primed = []
            if load.priming is not None:
                primed.append(await client.send(load.priming, 0.0, time.perf_counter()))
            counts = self._arm.reports_drafts
            before = await find_counters(session, self._server, None) if counts else None
            records = await run_closed_loop(
                client, iter(load.requests), load.users, None, time.perf_counter, _ignore
            )
            described = describe_turn(records)
            described["num_errors"] += describe_turn(primed)["num_errors"] if primed else 0
            if counts:
                speculation = await finish_counters(session, before)
                described["drafted_tokens"] = speculation.drafted_tokens
                described["accepted_tokens"] = speculation.accepted_tokens
            return described


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

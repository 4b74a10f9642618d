"""When the closed loop and the open loop send their requests."""

from __future__ import annotations

import asyncio
import itertools
import time

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.driver import run_closed_loop, run_open_loop
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.workloads import RequestSpec
from unit.bench.simulated import SimulatedServer, scripted_spec


class OneSecondSender:
    """Every request takes exactly one second of a clock that only it moves."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def clock(self) -> float:
        return self.now_s

    async def send(self, spec: RequestSpec, scheduled_s: float, zero_s: float) -> RequestRecord:
        sent_s = self.now_s - zero_s
        self.now_s += 1.0
        return RequestRecord(
            spec.index, spec.task, scheduled_s, sent_s, (), sent_s + 1.0, RequestOutcome.OK
        )


def specs(count: int) -> list[RequestSpec]:
    return [scripted_spec(index) for index in range(count)]


async def test_closed_loop_sends_when_the_one_before_has_ended() -> None:
    sender = OneSecondSender()
    records = await run_closed_loop(
        sender, iter(specs(3)), 1, None, sender.clock, lambda record: None
    )
    assert [r.scheduled_s for r in records] == [0.0, 1.0, 2.0]
    assert [r.finished_s for r in records] == [1.0, 2.0, 3.0]


async def test_closed_loop_starts_nothing_after_its_duration_and_counts_the_last() -> None:
    """Of 2.5 s, requests start at 0, 1 and 2 s; the third ends at 3 s."""
    sender = OneSecondSender()
    records = await run_closed_loop(
        sender, map(scripted_spec, itertools.count()), 1, 2.5, sender.clock, lambda record: None
    )
    assert [r.scheduled_s for r in records] == [0.0, 1.0, 2.0]
    assert records[-1].finished_s == 3.0


async def test_closed_loop_never_exceeds_its_concurrency(server: SimulatedServer) -> None:
    """The server answers only once three requests are there: fewer in flight would hang."""
    server.release_after = 3
    async with aiohttp.ClientSession() as session:
        client = StreamingClient(session, URL(server.url), None, 60.0)
        records = await run_closed_loop(
            client, iter(specs(12)), 3, None, time.perf_counter, lambda record: None
        )
    assert server.max_in_flight == 3
    assert [r.index for r in records] == list(range(12))
    assert all(r.is_ok for r in records)


async def test_open_loop_keeps_sending_while_the_server_stalls(server: SimulatedServer) -> None:
    """The server stalls until all eight requests have arrived: waiting for answers would hang.

    All answers come after the last was sent, so each earlier one waited longer, from its schedule.
    """
    server.release_after = 8
    offsets_s = [0.02 * i for i in range(8)]
    seen: list[RequestRecord] = []
    async with aiohttp.ClientSession() as session:
        client = StreamingClient(session, URL(server.url), None, 60.0)
        async with asyncio.timeout(60):
            records = await run_open_loop(
                client, specs(8), offsets_s, time.perf_counter, seen.append
            )
    assert len(seen) == 8
    assert [r.scheduled_s for r in records] == offsets_s
    assert all(r.sent_s >= r.scheduled_s for r in records)
    last_sent_s = records[-1].sent_s
    assert all(r.is_ok and r.chunk_times_s[0] >= last_sent_s for r in records)
    ttfts_s = [r.ttft_s for r in records if r.ttft_s is not None]
    assert ttfts_s[0] >= 0.14


async def test_open_loop_that_is_late_catches_up_without_dropping() -> None:
    """Offsets in the past are sent at once, and their delay is on record."""
    sender = OneSecondSender()
    records = await run_open_loop(
        sender, specs(3), [0.0, 0.0, 0.0], sender.clock, lambda record: None
    )
    assert [r.dispatch_delay_s for r in records] == [0.0, 1.0, 2.0]


async def test_open_loop_never_sends_early_though_sleepers_wake_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop's timers do: a latency from the schedule would come out too short, even negative."""
    sender = OneSecondSender()
    yield_once = asyncio.sleep  # sleep: it is called with 0 only

    async def wake_halfway(delay_s: float) -> None:
        await yield_once(0)
        sender.now_s += delay_s / 2 if delay_s > 1e-3 else delay_s

    monkeypatch.setattr(asyncio, "sleep", wake_halfway)
    records = await run_open_loop(sender, specs(2), [2.0, 10.0], sender.clock, lambda record: None)
    assert [0 <= r.dispatch_delay_s < 1e-2 for r in records] == [True, True]

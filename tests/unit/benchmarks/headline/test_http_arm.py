"""A slice over a real socket: its requests, its record, and the drafts within it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.headline import http_arm
from benchmarks.headline.arms import parse_arm
from benchmarks.headline.cells import Cell, parse_cells
from benchmarks.headline.http_arm import HttpArm, describe_turn
from benchmarks.headline.naive_server import build_application
from benchmarks.headline.turns import Slice
from paceline.bench.load.records import RequestOutcome, RequestRecord

CELLS = parse_cells(["mixed-1", "mixed-4", "mixed-16", "offered", "system-cached"])
BY_NAME = {cell.name: cell for cell in CELLS}


class Drafting:
    """Answers three tokens, of which the server drafted four and accepted two."""

    def __init__(self) -> None:
        self.num_answers = 0
        self.bodies: list[Mapping[str, Any]] = []

    def generate(
        self,
        body: Mapping[str, Any],
        emit: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> tuple[int, int, str]:
        self.num_answers += 1
        self.bodies.append(body)
        for word in ["one", "two", "three"]:
            emit(word)
        return 5, 3, "stop"

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            text=f"vllm:spec_decode_num_draft_tokens_total {4 * self.num_answers}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {2 * self.num_answers}\n"
        )


@asynccontextmanager
async def served(generator: Drafting, arm: str) -> AsyncIterator[HttpArm]:
    application = build_application("m", generator)
    application.router.add_get("/metrics", generator.metrics)
    async with TestServer(application) as server:
        url = str(server.make_url("/"))
        yield HttpArm(parse_arm(arm), url, CELLS, max_tokens=96, seed=0, timeout_s=10.0)


def part_of(cell: Cell) -> Slice:
    return Slice(0, cell, 0, ())


async def test_a_turn_answers_the_requests_of_its_cell() -> None:
    generator = Drafting()
    async with served(generator, "vllm") as arm:
        turn = await arm.answer(part_of(BY_NAME["mixed-4"]), 1.0)
    assert len(generator.bodies) == len(turn["requests"]) == 12
    assert {tuple(row[:2]) for row in turn["requests"]} == {(5, 3)}
    assert all(row[2] <= row[3] <= 1000 * turn["seconds"] for row in turn["requests"])
    assert turn["num_errors"] == 0
    assert "drafted_tokens" not in turn


async def test_drafts_are_those_of_the_turn_without_the_priming_request() -> None:
    """6 requests of 4 drafted tokens, after one that only fills the prefix cache."""
    generator = Drafting()
    async with served(generator, "vllm+K=4") as arm:
        await arm.answer(part_of(BY_NAME["mixed-1"]), 1.0)
        turn = await arm.answer(part_of(BY_NAME["system-cached"]), 1.0)
    assert (turn["drafted_tokens"], turn["accepted_tokens"]) == (24, 12)
    assert len(turn["requests"]) == 6
    assert len(generator.bodies) == 4 + 7


async def test_offered_requests_come_at_the_offered_rate_and_alike_for_every_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """20 arrivals at 50/s are due within 0.4 s on average, at 500/s a tenth of it."""
    schedules: list[list[float]] = []
    send = http_arm.run_open_loop

    async def recorded(client: Any, specs: Any, offsets_s: list[float], *rest: Any) -> Any:
        schedules.append(offsets_s)
        return await send(client, specs, offsets_s, *rest)

    monkeypatch.setattr(http_arm, "run_open_loop", recorded)
    for rate in (50.0, 50.0, 500.0):
        async with served(Drafting(), "vllm") as arm:
            turn = await arm.answer(part_of(BY_NAME["offered"]), rate)
            assert len(turn["requests"]) == 20
    first, again, faster = schedules
    assert first == again
    assert faster == pytest.approx([offset_s / 10 for offset_s in first])
    assert 0.2 < first[-1] < 0.8


def test_a_failed_request_is_counted_and_in_no_row() -> None:
    def record(index: int, outcome: RequestOutcome, error: str | None) -> RequestRecord:
        return RequestRecord(
            index=index, task="t", scheduled_s=1.0, sent_s=1.25, chunk_times_s=(1.5, 1.75, 2.5),
            finished_s=3.0 + index, outcome=outcome, prompt_tokens=7, output_tokens=4, error=error,
        )  # fmt: skip

    turn = describe_turn(
        [record(0, RequestOutcome.OK, None), record(1, RequestOutcome.TIMEOUT, "too late")]
    )
    assert turn == {
        "seconds": 3.0,
        "max_dispatch_delay_ms": 250.0,
        "num_errors": 1,
        "error": "too late",
        "requests": [[7, 4, 500.0, 2000.0, 750.0]],
    }


def test_an_answer_without_usage_is_a_failure() -> None:
    record = RequestRecord(
        index=0, task="t", scheduled_s=0.0, sent_s=0.0, chunk_times_s=(0.5,), finished_s=1.0,
        outcome=RequestOutcome.OK,
    )  # fmt: skip
    turn = describe_turn([record])
    assert turn["num_errors"] == 1
    assert turn["error"] == "an answer without usage"


def test_an_answer_that_ends_at_once_is_no_failure() -> None:
    """Sampled text may begin with its end: one token, no text."""
    record = RequestRecord(
        index=0, task="t", scheduled_s=1.0, sent_s=1.0, chunk_times_s=(), finished_s=1.25,
        outcome=RequestOutcome.OK, prompt_tokens=7, output_tokens=1,
    )  # fmt: skip
    turn = describe_turn([record])
    assert turn["num_errors"] == 0
    assert turn["requests"] == [[7, 1, 250.0, 250.0, None]]

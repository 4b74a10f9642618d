"""A slice over a real socket: its requests, its record, and the drafts within it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.headline.arms import parse_arm
from benchmarks.headline.cells import parse_cells, slice_load
from benchmarks.headline.http_arm import HttpArm, Load, describe_turn
from benchmarks.headline.naive_server import build_application
from paceline.foundation.load.records import RequestOutcome, RequestRecord


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
        yield HttpArm(parse_arm(arm), str(server.make_url("/")), timeout_s=10.0)


def load(name: str) -> Callable[[str], Load]:
    cells = parse_cells([name])
    return lambda model: slice_load(cells[0], cells, 0, model, seed=0)


async def test_a_turn_answers_the_requests_of_its_cell() -> None:
    generator = Drafting()
    async with served(generator, "vllm") as arm:
        turn = await arm.answer(load("chat-4"))
    assert len(generator.bodies) == len(turn["requests"]) == 8
    assert {tuple(row[:2]) for row in turn["requests"]} == {(5, 3)}
    assert all(row[2] <= row[3] <= 1000 * turn["seconds"] for row in turn["requests"])
    assert turn["num_errors"] == 0
    assert "drafted_tokens" not in turn


async def test_drafts_are_those_of_the_turn_without_the_priming_request() -> None:
    """6 requests of 4 drafted tokens, after one that only fills the prefix cache."""
    generator = Drafting()
    async with served(generator, "vllm+layout+K=4") as arm:
        await arm.answer(load("chat-1"))
        turn = await arm.answer(load("system-cached"))
    assert (turn["drafted_tokens"], turn["accepted_tokens"]) == (24, 12)
    assert len(turn["requests"]) == 6
    assert len(generator.bodies) == 3 + 7


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

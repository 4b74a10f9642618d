"""The naive server on a real socket, with a generator of known answers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer
from yarl import URL

from benchmarks.headline.naive_server import build_application
from paceline.foundation.load.client import StreamingClient
from paceline.foundation.load.driver import run_closed_loop
from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.workloads import RequestSpec


class Generator:
    """Answers with the words of the prompt, one token each; fails where the prompt says so."""

    def __init__(self) -> None:
        self.num_running = self.max_running = 0
        self.has_begun = threading.Event()
        self.was_cancelled = threading.Event()

    def generate(
        self,
        body: Mapping[str, Any],
        emit: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> tuple[int, int, str]:
        self.num_running += 1
        self.max_running = max(self.max_running, self.num_running)
        self.has_begun.set()
        text = body["messages"][0]["content"] if "messages" in body else body["prompt"]
        try:
            if text == "fail":
                raise ValueError("the prompt says so")
            for _ in range(6000 if text == "wait" else 0):
                if is_cancelled():
                    self.was_cancelled.set()
                    return 1, 0, "stop"
                emit("more ")
                time.sleep(0.01)  # sleep: a token may take any time
            words = text.split()
            for word in words:
                emit(word)
                time.sleep(0.002)  # sleep: a token may take any time
            return 7, len(words), "stop"
        finally:
            self.num_running -= 1


@asynccontextmanager
async def naive(generator: Generator) -> AsyncIterator[StreamingClient]:
    server = TestServer(build_application("m", generator))
    async with server, aiohttp.ClientSession() as session:
        yield StreamingClient(session, URL(str(server.make_url("/"))), None, 60.0)


def spec(index: int, text: str, *, is_chat: bool = False) -> RequestSpec:
    body: dict[str, Any] = {"prompt": text}
    path = "/v1/completions"
    if is_chat:
        body = {"messages": [{"role": "user", "content": text}]}
        path = "/v1/chat/completions"
    return RequestSpec(index=index, task="t", path=path, body=json.dumps(body).encode())


def ignore(record: RequestRecord) -> None: ...


async def test_both_routes_stream_a_chunk_per_token_and_the_usage() -> None:
    async with naive(Generator()) as client:
        for is_chat in (False, True):
            record = await client.send(
                spec(0, "one two three", is_chat=is_chat), 0.0, time.perf_counter()
            )
            assert record.outcome is RequestOutcome.OK
            assert len(record.chunk_times_s) == 3
            assert (record.prompt_tokens, record.output_tokens) == (7, 3)


async def test_one_request_at_a_time_and_none_is_lost() -> None:
    generator = Generator()
    specs = [spec(number, "a b c d") for number in range(6)]
    async with naive(generator) as client:
        records = await run_closed_loop(client, iter(specs), 6, None, time.perf_counter, ignore)
    assert [record.output_tokens for record in records] == [4] * 6
    assert generator.max_running == 1


async def test_a_failure_ends_its_stream_alone() -> None:
    async with naive(Generator()) as client:
        failed = await client.send(spec(0, "fail"), 0.0, time.perf_counter())
        later = await client.send(spec(1, "a b"), 0.0, time.perf_counter())
    assert not failed.is_ok
    assert later.is_ok


async def test_a_client_that_leaves_frees_the_turn() -> None:
    generator = Generator()
    async with naive(generator) as client:
        leaving = asyncio.create_task(client.send(spec(0, "wait"), 0.0, time.perf_counter()))
        assert await asyncio.to_thread(generator.has_begun.wait, 60)
        leaving.cancel()
        await asyncio.wait({leaving})
        assert (await client.send(spec(1, "a b"), 0.0, time.perf_counter())).is_ok
    assert generator.was_cancelled.is_set()

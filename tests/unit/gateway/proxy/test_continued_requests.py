"""Streams that are continued, as their client, the metrics and the log show them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from unit.gateway.conftest import SETTINGS, until
from unit.gateway.proxy.engine_pair import FAILURES, ROLE, Pair, ask, delta, pair, sse

CONTINUED = "paceline_continuations_total"


def begin_on_one(both: Pair) -> None:
    """The first engine fails after one token; the second can continue."""
    token = delta("def ", [7])
    token["choices"][0]["text"] = "def "  # for the chat and for the completion that continues it
    for engine in (both.one, both.two):
        engine.words = {1: "", 2: "", 7: "def "}
    both.one.mode, both.one.raw = "raw", sse(ROLE, token)


def complete_on_two(both: Pair) -> None:
    end = delta(None, [7], "stop")
    end["choices"][0]["text"] = "def "
    both.two.mode, both.two.raw = "raw", sse(end, "[DONE]")


async def test_a_stream_that_another_replica_completes_is_resumed() -> None:
    async with pair() as both:
        begin_on_one(both)
        complete_on_two(both)
        answer = await ask(both)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert "error" not in answer.text
        assert await both.count(CONTINUED + '{result="resumed"}') == 1
        assert await both.count(CONTINUED + '{result="failed"}') == 0


async def test_a_continuation_without_a_token_has_failed() -> None:
    failures = replace(FAILURES, max_continuations=1)
    async with pair(failures) as both:
        begin_on_one(both)
        both.two.mode = "dead"
        answer = await ask(both)
        assert "engine_unavailable" in answer.text
        assert await both.count(CONTINUED + '{result="resumed"}') == 0
        assert await both.count(CONTINUED + '{result="failed"}') == 1
        assert await both.count(CONTINUED + '{result="gave_up"}') == 1


async def test_a_stream_for_which_no_replica_comes_ends_with_an_error_event() -> None:
    async with pair() as both:
        begin_on_one(both)
        both.source.current = both.source.current[:1]
        asking = asyncio.create_task(ask(both))
        await until(lambda: both.one.num_begun == 1)
        both.source.current = []
        answer = await asking
        assert "engine_unavailable" in answer.text
        assert await both.count(CONTINUED + '{result="gave_up"}') == 1


async def test_the_log_says_why_a_stream_was_not_continued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pair() as both:
        begin_on_one(both)
        answer = await ask(both, presence_penalty=1, logprobs=True)
        assert '"error"' in answer.text
        (line,) = (text for text in caplog.messages if "next: give_up" in text)
        assert "not_continuable (" in line


async def test_a_request_whose_replicas_go_while_it_waits_is_told_that_none_is_ready() -> None:
    admission = replace(SETTINGS.admission, max_in_flight=1, max_queue_wait_s=0.3)
    async with pair(admission=admission) as both:
        both.one.mode = both.two.mode = "hang"
        asking = [asyncio.create_task(ask(both)) for _ in range(3)]
        await until(lambda: both.one.num_begun + both.two.num_begun == 2)
        both.source.current = [replace(one, state="down") for one in both.source.current]
        answer = await asking[2]
        for task in asking[:2]:
            task.cancel()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_unavailable")

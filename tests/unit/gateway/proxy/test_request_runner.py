"""Requests whose replicas fail, as a client sees them: two fake engines, one client."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.http.whole_answer import error_in
from paceline.runtime.gateway.proxy import attempt
from paceline.runtime.gateway.proxy.upstream import UpstreamResponse
from unit.gateway.conftest import chat, until
from unit.gateway.proxy.engine_pair import CHAT, FAILURES, ROLE, ask, delta, pair, sse


async def test_a_stream_without_a_token_is_made_again_from_the_beginning() -> None:
    """Its chunk with the role has not gone out, so the client sees one."""
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE)
        answer = await ask(both)
        assert answer.text.count("def ") == 1
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"role"' not in answer.text
        assert both.two.num_begun == 1


async def test_keep_alives_of_an_engine_are_no_part_of_the_answer() -> None:
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(": keep-alive")
        answer = await ask(both)
        assert answer.text.startswith(":\n\n")
        assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("is_stream", [True, False])
async def test_an_answer_that_the_engine_aborts_is_not_complete(is_stream: bool) -> None:
    """vLLM gives this finish reason to all its requests when it shuts down."""
    aborted = delta("", [], "abort")
    async with pair() as both:
        both.one.mode = "raw"
        both.one.raw = sse(aborted, "[DONE]") if is_stream else json.dumps(aborted).encode()
        both.one.raw_type = "text/event-stream" if is_stream else "application/json"
        body = chat(stream=is_stream, presence_penalty=1)
        answer = await both.http.post(CHAT, content=json.dumps(body).encode(), headers=JSON)
        assert answer.status_code == 200
        assert "abort" not in answer.text
        assert both.two.num_begun == 1


JSON = {"content-type": "application/json"}


async def test_reasoning_does_not_come_out_as_content() -> None:
    """A marker comes without content, and the reasoning after it is not continued."""
    thought = delta(None, [8])
    thought["choices"][0]["delta"] = {"reasoning": "hm"}
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta(None, [7]), thought)
        answer = await ask(both)
        assert '"error"' in answer.text
        assert both.two.num_begun == 0


async def test_a_stream_without_text_begins_anew_when_its_replica_fails() -> None:
    """The client has nothing of it: its first token may be the beginning of reasoning."""
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta(None, [7]))
        answer = await ask(both)
        assert '"error"' not in answer.text
        assert both.two.num_begun == 1


async def test_a_failed_continuation_does_not_count_against_the_replica() -> None:
    async with pair(replace(FAILURES, min_samples=20)) as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta("def ", [7]))
        for _ in range(19):
            answer = await ask(both)
            assert '"error"' in answer.text  # the fake engine does not detokenise
        assert both.breaker("r1") == "closed"


async def test_a_stream_that_no_replica_can_continue_is_counted_as_such() -> None:
    """It is neither complete nor a failure of the second replica, which does not detokenise."""
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta("def ", [7]))
        answer = await ask(both)
        assert '"error"' in answer.text
        assert "[DONE]" not in answer.text
        assert await both.count('paceline_requests_total{outcome="not_continued"}') == 1
        assert await both.count('paceline_requests_total{outcome="completed"}') == 0
        assert await both.count('paceline_continuations_total{result="not_continuable"}') == 1


async def test_a_continuation_without_room_in_memory_ends_the_stream_with_an_error_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def no_room(self: UpstreamResponse, most: int, grow: object) -> bytes:
        raise Refusal(Problem(503, "no room", "buffers_full", closes_connection=True))

    monkeypatch.setattr(UpstreamResponse, "read_all", no_room)
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta("def ", [7]))
        answer = await ask(both)
        assert "def " in answer.text
        assert '"error"' in answer.text
        assert "[DONE]" not in answer.text


async def test_tokens_before_an_abort_reach_the_client() -> None:
    aborted = delta("", [], "abort")
    async with pair() as both:
        both.one.mode = "raw"
        both.one.raw = sse(ROLE, delta("def ", [7]), aborted, "[DONE]")
        answer = await ask(both)
        assert '"content":"def "' in answer.text
        assert '"error"' in answer.text  # the other fake engine cannot continue
        assert "abort" not in answer.text


async def test_a_stream_continues_only_where_the_context_is_as_long_and_ids_are_reported() -> None:
    async with pair() as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta("def ", [7]))
        first, second = both.source.current
        for other in (replace(second, max_model_len=1024), replace(second, dialect="sglang")):
            both.source.current = [first, other]
            answer = await ask(both)
            assert "engine_unavailable" in answer.text
        assert both.two.paths == []


async def test_a_complete_answer_is_closed_although_no_replica_can_continue_it() -> None:
    failures = replace(FAILURES, max_continuations=0)
    async with pair(failures) as both:
        both.one.mode, both.one.raw = "raw", sse(ROLE, delta("all", [7], "stop"))
        answer = await ask(both)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert "error" not in answer.text


async def test_the_gateway_does_not_wait_for_bytes_after_the_end() -> None:
    async with pair() as both:
        both.one.mode = "stall_after_done"
        answer = await ask(both, presence_penalty=1)
        assert answer.text.count("[DONE]") == 1
        assert "error" not in answer.text


async def test_one_request_is_sent_to_at_most_max_attempts_engines() -> None:
    """An engine that reads the request and closes may have died of it."""
    async with pair() as both:
        both.one.mode = both.two.mode = "dead"
        answer = await both.http.post(CHAT, json=chat())
        assert answer.status_code == 503
        assert both.one.num_begun + both.two.num_begun == FAILURES.max_attempts


async def test_a_request_that_no_engine_has_received_needs_no_budget() -> None:
    failures = replace(FAILURES, retry_reserve=0, retry_fraction=0.0)
    async with pair(failures) as both:
        first, second = both.source.current
        both.source.current = [replace(first, address="/nowhere.sock"), second]
        assert (await ask(both)).status_code == 200


async def test_an_engine_that_hangs_before_its_headers_loses_its_requests() -> None:
    failures = replace(FAILURES, first_silence_s=0.2)
    async with pair(failures, first_byte_timeout_s=3600, response_timeout_s=3600) as both:
        both.one.mode = "hang"
        answer = await ask(both)
        assert answer.text.endswith("data: [DONE]\n\n")
        assert both.two.num_begun == 1


async def test_a_request_whose_only_engine_hangs_waits_for_another_one() -> None:
    failures = replace(FAILURES, first_silence_s=0.2, replica_wait_s=60)
    async with pair(failures, first_byte_timeout_s=3600, response_timeout_s=3600) as both:
        both.one.mode = "hang"
        first, second = both.source.current
        both.source.current = [first]
        asking = asyncio.create_task(ask(both))
        await until(lambda: both.breaker("r0") != "closed")
        both.source.current = [replace(first, state="starting"), second]
        answer = await asking
        assert answer.text.endswith("data: [DONE]\n\n")
        assert both.two.num_begun == 1


@pytest.mark.parametrize("num_faults", [1, 2])
async def test_an_answer_on_which_the_gateway_fails_is_asked_for_once_more(
    num_faults: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replica may have sent what the gateway cannot read. Of two, the fault is its own."""
    faults = iter(range(num_faults))

    def failing(body: bytes, content: str) -> bytes | None:
        if next(faults, None) is not None:
            raise ZeroDivisionError
        return error_in(body, content)

    monkeypatch.setattr(attempt, "error_in", failing)
    async with pair() as both:
        answer = await both.http.post(CHAT, json=chat())
        assert answer.status_code == (200 if num_faults == 1 else 500)
        assert (both.one.num_begun, both.two.num_begun) == (1, 1)


async def test_a_half_open_replica_is_tried_by_one_request_alone() -> None:
    failures = replace(FAILURES, open_s=0.1, max_open_s=0.1, replica_wait_s=60, max_attempts=9)
    async with pair(failures) as both:
        first, _ = both.source.current
        gone = replace(first, address="/nowhere.sock")
        both.source.current = [gone]
        waiting = [asyncio.create_task(ask(both)) for _ in range(20)]
        await until(lambda: both.breaker("r0") == "half_open")
        both.one.mode = "drip"
        both.source.current = [first]
        answers = await asyncio.gather(*waiting)
        assert {answer.status_code for answer in answers} == {200}


async def test_a_429_is_tried_on_an_idle_replica() -> None:
    async with pair() as both:
        both.one.mode, both.one.refusal = "refuse", (429, {"error": {"message": "busy"}})
        answers = [await both.http.post(CHAT, json=chat()) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert both.two.num_finished == 4


async def test_a_429_of_every_replica_reaches_the_client() -> None:
    async with pair() as both:
        for engine in (both.one, both.two):
            engine.mode, engine.refusal = "refuse", (429, {"error": {"message": "busy"}})
        answer = await both.http.post(CHAT, json=chat())
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
        assert both.one.num_begun + both.two.num_begun == 2

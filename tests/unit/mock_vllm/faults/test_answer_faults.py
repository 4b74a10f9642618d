"""Faults of a single answer: the bytes that its client receives."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from paceline.testing.mock_vllm import Fault, FaultKind, encode_text, expected_answer
from unit.mock_vllm.faults.faulty_server import (
    BODY,
    read_stream,
    request_records,
    serving,
    token_ids,
)


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("half_close", "broken"),
        ("tear", "broken"),
        ("no_done", "end"),
        ("bad_chunking", "broken"),
        ("stall", "silent"),
        ("hang", "silent"),
        ("freeze", "silent"),
    ],
)
@pytest.mark.parametrize("num_tokens", [0, 1, 7, 20])
async def test_a_stream_breaks_after_exactly_the_given_number_of_tokens(
    kind: str, ending: str, num_tokens: int
) -> None:
    """Even after the last token: then the stream has no end."""
    async with serving(Fault(FaultKind(kind), after_tokens=num_tokens)) as http:
        is_silent = ending == "silent"
        text, ended = await read_stream(http, silent_after_tokens=num_tokens if is_silent else None)
        assert ended == ending
        assert token_ids(text) == list(expected_answer(encode_text("abc"), 20).ids[:num_tokens])
        assert "[DONE]" not in text


@pytest.mark.parametrize("num_tokens", [0, 7])
async def test_a_reset_fault_resets_the_connection(num_tokens: int) -> None:
    """TCP may discard bytes that were sent before the reset, so only the request log is exact."""
    async with serving(Fault(FaultKind.RESET, after_tokens=num_tokens)) as http:
        with pytest.raises(httpx.ReadError):
            await http.post("/v1/completions", json={**BODY, "stream": True})
        (record,) = await request_records(http)
        assert (record["ending"], record["num_tokens"]) == ("fault:reset", num_tokens)


@pytest.mark.parametrize("kind", ["long_line", "bad_json"])
async def test_an_invalid_event_is_inserted_and_the_stream_continues(kind: str) -> None:
    async with serving(Fault(FaultKind(kind), after_tokens=5, size_bytes=1_000_000)) as http:
        text, ended = await read_stream(http)
        assert ended == "done"
        assert token_ids(text) == list(expected_answer(encode_text("abc"), 20).ids)
        inserted = text.split("\n\n")[5]
        with pytest.raises(ValueError, match=r"Expecting|delimiter|value"):
            json.loads(inserted.removeprefix("data: "))
        assert (len(inserted) + 2 == 1_000_000) == (kind == "long_line")


async def test_an_error_event_ends_the_stream_as_in_vllm() -> None:
    async with serving(Fault(FaultKind.ERROR_EVENT, after_tokens=3)) as http:
        text, ended = await read_stream(http)
        *_, error, done, _ = text.split("\n\n")
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == 500
        assert (done, ended, len(token_ids(text))) == ("data: [DONE]", "done", 3)


async def test_an_error_object_has_status_200_before_the_first_byte_and_later_is_an_event() -> None:
    async with serving(Fault(FaultKind.ERROR_OBJECT, times=2)) as http:
        for stream in (False, True):
            answer = await http.post("/v1/completions", json=BODY | {"stream": stream})
            assert (answer.status_code, answer.json()["object"]) == (200, "error")
    async with serving(Fault(FaultKind.ERROR_OBJECT, after_tokens=3)) as http:
        text, _ = await read_stream(http)
        *_, error, done, _ = text.split("\n\n")
        assert json.loads(error.removeprefix("data: "))["object"] == "error"
        assert (done, len(token_ids(text))) == ("data: [DONE]", 3)


async def test_an_empty_answer_has_status_200_and_no_body() -> None:
    async with serving(Fault(FaultKind.EMPTY)) as http:
        for stream in (False, True):
            answer = await http.post("/v1/completions", json=BODY | {"stream": stream})
            assert (answer.status_code, answer.content) == (200, b"")


async def test_a_status_fault_is_an_error_in_vllms_format() -> None:
    async with serving(Fault(FaultKind.STATUS, status=429, times=1)) as http:
        refused = await http.post("/v1/completions", json=BODY)
        assert refused.status_code == refused.json()["error"]["code"] == 429
        assert (await http.post("/v1/completions", json=BODY)).status_code == 200


async def test_answers_that_are_not_streamed_break_too() -> None:
    for kind in ("tear", "reset", "half_close", "bad_chunking"):
        async with serving(Fault(FaultKind(kind))) as http:
            with pytest.raises(httpx.HTTPError):
                await http.post("/v1/completions", json=BODY)
    for kind in ("bad_json", "long_line"):
        async with serving(Fault(FaultKind(kind), size_bytes=100)) as http:
            answer = await http.post("/v1/completions", json=BODY)
            with pytest.raises(ValueError, match="Unterminated"):
                answer.json()


async def test_other_streams_continue_during_a_stall() -> None:
    async with (
        serving(Fault(FaultKind.STALL, after_tokens=4, request=1)) as http,
        http.stream("POST", "/v1/completions", json=BODY | {"stream": True}) as stalled,
    ):
        parts, text = stalled.aiter_text(), ""
        while len(token_ids(text)) < 4:
            text += await anext(parts)
        assert (await read_stream(http))[1] == "done"
        assert len(token_ids(text)) == 4
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(parts), 0.1)  # limit: no part may come, whatever the time


async def test_health_alone_can_fail() -> None:
    async with serving(Fault(FaultKind.STATUS, route="health", status=503)) as http:
        assert (await http.get("/health")).status_code == 503
        assert (await http.post("/v1/completions", json=BODY)).status_code == 200

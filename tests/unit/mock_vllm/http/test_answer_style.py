"""Answers in other styles: the same events for a reader that follows the standards, other bytes."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from chaos.event_stream import Event, EventStreamReader

from paceline.testing.mock_vllm import Fault, FaultKind, MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.answer_style import DECORATIONS, PACKETS, AnswerStyle
from paceline.testing.mock_vllm.http.styled_stream import StyledStream

CHAT = {
    "model": "m",
    "messages": [{"role": "user", "content": "Tell me 🚲."}],
    "max_tokens": 30,
    "temperature": 0,
    "stream": True,
    "stream_options": {"include_usage": True},
}
RESPONSE = {"model": "m", "input": "Tell me 🚲.", "max_output_tokens": 30, "stream": True}
BODIES = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSE | {"temperature": 0}}
COMBINED = (
    (*DECORATIONS[:5], AnswerStyle.CRLF, AnswerStyle.MULTI_LINE, *PACKETS),
    (AnswerStyle.RANDOM,),
    (AnswerStyle.RANDOM, AnswerStyle.GZIP, AnswerStyle.CLOSE_DELIMITED),
)


async def answer(
    *styles: AnswerStyle, path: str = "/v1/chat/completions", faults: tuple[Fault, ...] = ()
) -> httpx.Response:
    """The answer of a server with these styles to the body for this path."""
    settings = MockVllmSettings(
        model="m", tpot_ms=0, eos_every_tokens=0, answer_style=frozenset(styles)
    )
    async with (
        MockVllm(settings, faults=faults) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        return await http.post(path, json=BODIES[path])


def events_in(body: bytes) -> list[Event]:
    reader = EventStreamReader()
    events = list(reader.feed(body))
    assert reader.num_rest_bytes == 0
    return events


def contents_of(events: list[Event]) -> list[object]:
    """What the events hold, without ids and times."""
    contents: list[object] = []
    for event in events:
        if event.data == b"[DONE]":
            contents.append((event.name, "[DONE]"))
            continue
        data = json.loads(event.data)
        response = data.get("response", {})
        names = ("choices", "usage", "delta", "text", "type", "sequence_number")
        contents.append(
            (event.name, *(data.get(name) for name in names), response.get("output_text"))
        )
    return contents


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "styles",
    [
        *((style,) for style in (*DECORATIONS, *PACKETS, AnswerStyle.GZIP)),
        (AnswerStyle.CLOSE_DELIMITED,),
        (AnswerStyle.JSON_LABEL,),
        *COMBINED,
    ],
    ids="+".join,
)
async def test_a_reader_of_the_standard_gets_the_same_events_in_other_bytes(
    styles: tuple[AnswerStyle, ...], path: str
) -> None:
    plain, styled = await answer(path=path), await answer(*styles, path=path)
    assert contents_of(events_in(styled.content)) == contents_of(events_in(plain.content))


@pytest.mark.parametrize(
    ("style", "mark"),
    [
        (AnswerStyle.ID, b"id: 3\n"),
        (AnswerStyle.EVENT, b"event: message\n"),
        (AnswerStyle.RETRY, b"retry: 3000\n"),
        (AnswerStyle.COMMENT, b": before 3\n"),
        (AnswerStyle.KEEP_ALIVE, b": keep-alive\n\n"),
        (AnswerStyle.CRLF, b"\r\n\r\n"),
        (AnswerStyle.CR, b"\r\rdata: "),
        (AnswerStyle.NO_BLANK, b"\n\ndata:{"),
        (AnswerStyle.MULTI_LINE, b'\ndata:  "choices": [\n'),
        (AnswerStyle.BOM, b"\xef\xbb\xbfdata: "),
    ],
)
async def test_every_decoration_is_in_the_bytes(style: AnswerStyle, mark: bytes) -> None:
    assert mark not in (await answer()).content
    assert mark in (await answer(style)).content


async def test_the_end_of_a_stream_can_be_that_of_other_servers() -> None:
    plain = events_in((await answer()).content)
    assert events_in((await answer(AnswerStyle.NO_DONE)).content)[-1].data != b"[DONE]"
    after = contents_of(events_in((await answer(AnswerStyle.AFTER_DONE)).content))
    assert after[: len(plain)] == contents_of(plain)
    assert len(after) == len(plain) + 1
    assert (await answer(AnswerStyle.UNENDED)).content.endswith(b"\n\ndata: [DONE]\n")


async def test_a_stream_can_be_labelled_as_json_and_a_document_can_take_its_place() -> None:
    labelled = await answer(AnswerStyle.JSON_LABEL)
    assert labelled.headers["content-type"] == "application/json"
    document = await answer(AnswerStyle.UNSTREAMED)
    assert document.json()["object"] == "chat.completion"


async def test_an_answer_without_a_length_can_be_cut_unnoticed() -> None:
    """As from a proxy that speaks HTTP/1.0: only the JSON shows that its end is missing."""
    cut = await answer(
        *(AnswerStyle.CLOSE_DELIMITED, AnswerStyle.UNSTREAMED),
        faults=(Fault(FaultKind.TEAR, after_tokens=5),),
    )
    assert cut.http_version == "HTTP/1.0"
    assert "content-length" not in cut.headers
    with pytest.raises(ValueError, match="Unterminated"):
        cut.json()


def test_packets_end_at_any_byte_and_hold_several_events() -> None:
    events = [b"data: %d%b\n\n" % (number, b"x" * 40) for number in range(400)]
    ends: set[int] = set()
    most = 0
    stream = StyledStream([AnswerStyle.COALESCED, AnswerStyle.CUT], seed=1)
    sent = b""
    for event in events:
        packet = stream.take(event)
        most = max(most, packet.count(b"\n\n"))
        sent += packet
        if packet:
            ends.add(len(sent) - (sent.rfind(b"\n\n") + 2))
    assert sent + stream.end() == b"".join(events)
    assert len(ends) > 20
    assert most >= 3


async def test_equal_requests_are_written_in_equal_styles() -> None:
    bodies = await asyncio.gather(*(answer(AnswerStyle.RANDOM) for _ in range(2)))
    lines = [[line[:12] for line in body.content.splitlines()] for body in bodies]
    assert lines[0] == lines[1]

"""A stream reader finds the end, errors and usage of a stream, whatever form its events have."""

from __future__ import annotations

import pytest

from paceline.gateway.http.stream_reader import (
    ABORTED,
    UNFINISHED,
    EventNames,
    StreamReader,
)
from paceline.gateway.requests.routes import RESPONSES
from paceline.gateway.usage import Usage

TOKEN = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"text":"","finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":6}}\n\n'


def passed(reader: StreamReader, *parts: bytes) -> bytes:
    return b"".join(event.raw for part in parts for event in reader.read(part))


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"error":{"code":500}}',
        b'data:{"error":"x"}',
        b'data: { "error" : {"code":500}}',
        b'data: {"id":"c","object":"chat.completion.chunk","error":{"code":500},"choices":[]}',
        b'data: {"object":"error","message":"x","code":500}',
        b'data: {"type":"error","message":"x"}',
        b'event: error\ndata: {"message":"x","code":500}',
        b'data: {"message":"x","code":500}\nevent: error',
        b'id: 9\nevent: error\ndata: {"message":"x"}',
        b'error: {"code":500,"message":"x"}',
        b'data: {"choices":3,"error":{"code":500}}',
        b'data: {"message":"x","code":500}',
        b'data: {"detail":"x"}',
    ],
)
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b""])
def test_an_error_ends_the_stream_whatever_its_event_looks_like(event: bytes, end: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + event + end, *([] if end else [b""]), TOKEN + DONE) == TOKEN
    assert reader.error is not None
    assert b"{" in reader.error
    assert not reader.saw_done


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"choices":[{"index":0,"text":"error"}]}\n\n',
        b'data: {"choices":[{"index":0,"text":"{\\"error\\":1}"}],"error":null}\n\n',
        b'data: {"error":{},"choices":[]}\n\n',
        b'data: {"choices":null,"usage":null}\n\n',
        b'data: {"id":null,"created":1.5,"choices":[{"delta":{"content":null}}]}\n\n',
        b'data: {"choices":"of another kind"}\n\n',
    ],
)
def test_what_only_looks_like_an_error_passes(event: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, event + DONE) == event + DONE
    assert reader.saw_done


@pytest.mark.parametrize(
    "event", [b"data: <html>", b"data: Internal Server Error", b"data: [1]", b"data: 7", b"data: {"]
)
def test_an_event_that_is_no_json_object_is_no_stream(event: bytes) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        StreamReader().read(TOKEN + event + b"\n\n")


@pytest.mark.parametrize(
    "end",
    [
        b"data: [DONE]\n\n",
        b"data:[DONE]\r\n\r\n",
        b"data: [DONE] \n\n",
        b"id: 7\ndata: [DONE]\n\n",
        b"event: message\ndata: [DONE]\n\n",
    ],
)
def test_nothing_is_read_after_the_end(end: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + end + TOKEN, TOKEN) == TOKEN + DONE
    assert reader.saw_done


@pytest.mark.parametrize("rest", [b"data: [DONE]\n", b"data: [DONE]", b"data:[DONE]\r\n"])
def test_an_end_without_its_blank_line_is_one(rest: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + rest, b"") == TOKEN + DONE
    assert reader.saw_done


def test_a_half_event_at_the_end_is_left_out() -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + LAST + USAGE[:-9], b"") == TOKEN + LAST
    assert reader.has_finished
    assert not reader.saw_done


def test_an_answer_has_finished_when_all_its_choices_have() -> None:
    reader = StreamReader(num_choices=2)
    assert not reader.has_finished
    reader.read(LAST + LAST)
    assert not reader.has_finished, "the same choice twice"
    reader.read(LAST.replace(b'"index":0', b'"index":1'))
    assert reader.has_finished


def test_an_empty_reason_is_none() -> None:
    """Some servers send it with every chunk."""
    reader = StreamReader()
    (event,) = reader.read(LAST.replace(b"stop", b""))
    assert not reader.has_finished
    assert event.chunk is not None
    assert event.chunk.choices is not None
    assert event.chunk.choices[0].finish_reason is None


def test_a_response_has_finished_with_its_last_event_only() -> None:
    reader = StreamReader(RESPONSES.event_names)
    reader.read(b'event: response.output_text.done\ndata: {"type":"x"}\n\n' + DONE)
    assert (reader.has_finished, reader.saw_done) == (False, False)
    completed = b'data: {"type":"response.completed","response":{"error":null}}\n\n'
    assert passed(reader, completed + TOKEN) == completed, "known by its type as well"
    assert reader.saw_done


def test_a_failed_response_is_an_error() -> None:
    for event in (b"event: response.failed\ndata: {}\n\n", b'data: {"type":"response.failed"}\n\n'):
        reader = StreamReader(RESPONSES.event_names)
        assert reader.read(event) == []
        assert reader.error is not None


def test_events_before_an_abort_pass() -> None:
    """An engine that shuts down may send its last tokens together with the abort."""
    aborted = LAST.replace(b"stop", b"abort")
    for event in (aborted, aborted.replace(b"\n", b"\r\n"), b"id: 1\n" + aborted):
        reader = StreamReader()
        assert passed(reader, TOKEN + event + DONE) == TOKEN
        assert (reader.error, reader.saw_done, reader.has_finished) == (ABORTED, False, False)


def test_the_last_usage_counts() -> None:
    reader = StreamReader()
    assert (
        passed(reader, USAGE.replace(b"6", b"5") + b"id: 1\n" + USAGE)
        == 2 * USAGE.replace(b"6", b"5")[:0] + USAGE.replace(b"6", b"5") + USAGE
    )
    assert reader.usage == Usage(3, 6)


@pytest.mark.parametrize("events", [TOKEN, b""])
def test_an_end_without_a_reason_is_an_error_where_one_is_needed(events: bytes) -> None:
    reader = StreamReader(needs_reason=True)
    assert passed(reader, events + DONE) == events
    assert (reader.error, reader.saw_done) == (UNFINISHED, False)


def test_an_end_with_a_reason_is_none() -> None:
    reader = StreamReader(needs_reason=True)
    assert passed(reader, TOKEN + LAST + DONE) == TOKEN + LAST + DONE
    assert (reader.error, reader.saw_done) == (None, True)


def test_names_of_events_before_the_first_token_are_kept() -> None:
    names = EventNames(before_tokens=frozenset({"created"}))
    events = StreamReader(names).read(b'event: created\ndata: {}\n\ndata: {"type":"created"}\n\n')
    assert [event.name for event in events] == ["created", "created"]

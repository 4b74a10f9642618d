"""A stream reader finds the end, errors and usage of a stream, whatever form its events have."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.http.stream_reader import (
    ABORTED,
    UNNAMED,
    EventNames,
    StreamReader,
)
from paceline.runtime.gateway.requests.routes import RESPONSES
from paceline.runtime.gateway.usage import Usage

TOKEN = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"text":"","finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":6}}\n\n'


DEEP = b'data: {"x":' + b"[" * 5000 + b"]" * 5000 + b"}"


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
        b'data: {"id":null,"created":1.5,"choices":[{"delta":{"content":null}}]}\n\n',
        b'data: {"choices":"of another kind"}\n\n',
    ],
)
def test_what_only_looks_like_an_error_passes(event: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, event + LAST + DONE) == event + LAST + DONE
    assert reader.saw_done


@pytest.mark.parametrize(
    "event",
    [
        b"data: <html>",
        b"data: Internal Server Error",
        b"data: [1]",
        b"data: 7",
        b"data: {",
        DEEP,
        b'data: {"x":"\xff"}',
    ],
)
def test_an_event_that_is_no_json_object_is_no_stream(event: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + event + b"\n\n" + TOKEN, TOKEN) == TOKEN, "those before it pass"
    assert "no JSON" in (reader.fault or "")


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
    assert passed(reader, LAST + end + TOKEN, TOKEN) == LAST + DONE
    assert reader.saw_done


@pytest.mark.parametrize("rest", [b"data: [DONE]\n", b"data: [DONE]", b"data:[DONE]\r\n"])
def test_an_end_without_its_blank_line_is_one(rest: bytes) -> None:
    reader = StreamReader()
    assert passed(reader, LAST + rest, b"") == LAST + DONE
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
    first = USAGE.replace(b"6", b"5")
    assert passed(reader, first + b"id: 1\n" + USAGE) == first + USAGE
    assert reader.usage == Usage(3, 6)


ROLE = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n'


@pytest.mark.parametrize("events", [TOKEN, b"", ROLE, USAGE, LAST + TOKEN.replace(b":0", b":1")])
def test_an_end_before_the_answer_is_complete_is_none(events: bytes) -> None:
    reader = StreamReader(num_choices=2)
    assert passed(reader, events + DONE, DONE) == events
    assert (reader.fault, reader.saw_done) == (
        "the stream ended before its answer was complete",
        False,
    )


def test_a_server_without_reasons_has_at_least_begun() -> None:
    reader = StreamReader(needs_reason=False)
    assert passed(reader, TOKEN + DONE) == TOKEN + DONE
    assert reader.saw_done
    reader = StreamReader(needs_reason=False)
    assert passed(reader, DONE) == b""
    assert reader.fault is not None


@pytest.mark.parametrize(
    "event",
    [
        b'data: {"type":"about:blank","status":500,"detail":"/opt/x"}',
        b'data: {"type":"error","id":7,"message":"/opt/x"}',
        b'event: failure\ndata: {"status":"failed","reason":"/opt/x"}',
        b'data: {"created":"now","detail":"/opt/x"}',
    ],
)
@pytest.mark.parametrize("names", [UNNAMED, RESPONSES.event_names])
def test_what_explains_itself_in_place_of_an_answer_is_an_error(
    event: bytes, names: EventNames
) -> None:
    reader = StreamReader(names)
    assert passed(reader, event + b"\n\n") == b""
    assert reader.error is not None


@pytest.mark.parametrize(
    "event",
    [
        b'event: ping\ndata: {"type":"ping"}',
        b'data: {"x-proxy":"10.0.0.7"}',
        b'data: {"choices":null,"usage":null}',
        b"data: {}",
    ],
)
@pytest.mark.parametrize("names", [UNNAMED, RESPONSES.event_names])
def test_what_is_not_of_this_api_is_left_out(event: bytes, names: EventNames) -> None:
    reader = StreamReader(names)
    assert passed(reader, event + b"\n\n") == b""
    assert (reader.error, reader.fault) == (None, None)


def test_an_end_with_a_reason_is_none() -> None:
    reader = StreamReader()
    assert passed(reader, TOKEN + LAST + DONE) == TOKEN + LAST + DONE
    assert (reader.error, reader.fault, reader.saw_done) == (None, None, True)


def test_names_of_events_come_from_the_event_or_its_type() -> None:
    events = StreamReader(RESPONSES.event_names).read(
        b'event: response.created\ndata: {}\n\ndata: {"type":"response.queued"}\n\n'
    )
    assert [event.name for event in events] == ["response.created", "response.queued"]

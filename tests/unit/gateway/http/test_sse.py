"""An event splitter returns whole events only, and finds end, error and usage by their bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.gateway.http.sse import (
    ABORTED,
    UNFINISHED,
    EventMarks,
    EventSplitter,
    has_error,
    split_at_error,
)
from paceline.gateway.usage import Usage

USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9,"completion_tokens":6}}\n\n'
)
STREAM = (
    'data: {"choices":[{"delta":{"content":"né 😀 data: [DONE]"}}]}\n\n'
    ": keep-alive\n\n"
    'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9,"completion_tokens":6}}\n\n'
    "data: [DONE]\n\n"
).encode()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_cut_anywhere_passes_unchanged_in_whole_events(cuts: list[int]) -> None:
    relay = EventSplitter(max_event_bytes=10_000)
    edges = [0, *sorted(cuts), len(STREAM)]
    out = [relay.feed(STREAM[a:b]) for a, b in itertools.pairwise(edges)]
    assert b"".join(out) == STREAM
    assert all(part.endswith(b"\n\n") for part in out if part)
    assert relay.saw_done
    assert relay.usage == Usage(3, 6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_usage_that_the_client_did_not_ask_for_is_removed(cuts: list[int]) -> None:
    relay = EventSplitter(max_event_bytes=10_000, hides_usage=True)
    edges = [0, *sorted(cuts), len(STREAM)]
    out = [relay.feed(STREAM[a:b]) for a, b in itertools.pairwise(edges)]
    assert USAGE in STREAM
    assert b"".join(out) == STREAM.replace(USAGE, b"")
    assert relay.saw_done
    assert relay.usage == Usage(3, 6)


def test_only_the_event_without_choices_is_removed() -> None:
    """The usage inside a text, and that of a chunk with a choice, stay."""
    relay = EventSplitter(max_event_bytes=10_000, hides_usage=True)
    events = (
        b'data: {"choices":[{"text":"\\"choices\\":[],\\"usage\\":{"}]}\n\n'
        b'data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    )
    assert relay.feed(events) == events
    assert relay.feed(USAGE.replace(b"\n", b"\r\n") + b"data: [DONE]\n\n") == b"data: [DONE]\n\n"


def test_marks_inside_text_are_not_taken_for_marks() -> None:
    relay = EventSplitter(max_event_bytes=10_000)
    event = b'data: {"content":"data: [DONE]\\n\\ndata: {\\"error\\": 1}"}\n\n'
    assert relay.feed(event) == event
    assert not relay.saw_done
    assert not has_error(event)


def test_half_an_event_is_held_back_up_to_the_limit() -> None:
    relay = EventSplitter(max_event_bytes=10)
    assert relay.feed(b"data: a\n\ndata") == b"data: a\n\n"
    assert not relay.is_inside_event
    assert relay.feed(b": 0123456789") == b"data: 0123456789"
    assert relay.is_inside_event
    assert relay.feed(b"\n\n") == b"\n\n"
    assert not relay.is_inside_event


def test_events_with_carriage_returns_are_whole_too() -> None:
    relay = EventSplitter(max_event_bytes=1000)
    assert relay.feed(b"data: a\r\n\r\ndata: b") == b"data: a\r\n\r\n"
    assert relay.feed(b"\r\n\r\n") == b"data: b\r\n\r\n"


def test_an_error_event_is_found_among_others() -> None:
    events = b'data: 1\n\ndata: {"error": {"code": 500}}\n\ndata: [DONE]\n\n'
    assert has_error(events)
    assert split_at_error(events) == (b"data: 1\n\n", b'{"error": {"code": 500}}')


def test_nothing_passes_after_an_error_event() -> None:
    relay = EventSplitter(max_event_bytes=1000)
    assert relay.feed(b'data: 1\n\ndata: {"error": 1}\n\ndata: [DONE]\n\n') == b"data: 1\n\n"
    assert relay.error == b'{"error": 1}'
    assert not relay.saw_done
    assert relay.feed(b"data: 2\n\n") == b""


def test_events_before_an_abort_pass() -> None:
    """An engine that shuts down may send its last tokens together with the abort."""
    aborted = b'data: {"choices":[{"text":"","finish_reason":"abort"}]}\n\n'
    for good in (b"data: 1\n\ndata: 2\n\n", b"data: 1\r\n\r\ndata: 2\r\n\r\n"):
        relay = EventSplitter(max_event_bytes=1000)
        assert relay.feed(good + aborted + b"data: [DONE]\n\n") == good
        assert relay.error == ABORTED
        assert not relay.saw_done


CREATED = b'event: response.created\ndata: {"sequence_number":0}\n\n'
DELTA = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n'
MARKS = EventMarks(before_tokens=(b"event: response.created", b"event: response.in_progress"))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(CREATED + DELTA)), max_size=12))
def test_events_before_the_first_token_are_held_back_until_it_comes(cuts: list[int]) -> None:
    stream = CREATED + DELTA
    relay = EventSplitter(10_000, MARKS)
    edges = [0, *sorted(cuts), len(stream)]
    out = []
    for start, end in itertools.pairwise(edges):
        out.append(relay.feed(stream[start:end]))
        assert relay.has_tokens == bool(b"".join(out)) == (end == len(stream))
    assert b"".join(out) == stream


def test_comments_pass_at_once_and_are_no_token() -> None:
    relay = EventSplitter(10_000, MARKS)
    assert relay.feed(CREATED) == b""
    assert relay.feed(b": keep-alive\n\n") == b": keep-alive\n\n"
    assert not relay.has_tokens
    assert relay.feed(DELTA) == CREATED + DELTA


def test_every_event_of_a_chat_is_a_token() -> None:
    relay = EventSplitter(10_000)
    assert relay.feed(b": keep-alive\n\n")
    assert not relay.has_tokens
    assert relay.feed(b'data: {"choices":[]}\n\n')
    assert relay.has_tokens


def test_a_long_event_before_the_first_token_passes_in_parts_and_is_no_token() -> None:
    relay = EventSplitter(40, MARKS)
    parts = [CREATED, b"event: response.created\n", b"data: " + b"x" * 50, b"x", b"\n\n", DELTA]
    passed = b""
    for part in parts[:-1]:
        passed += relay.feed(part)
        assert not relay.has_tokens
    assert passed == b"".join(parts[:-1])
    assert relay.feed(DELTA) == DELTA
    assert relay.has_tokens


def test_a_long_event_with_a_token_passes_in_parts_after_those_before_it() -> None:
    relay = EventSplitter(80, MARKS)
    assert relay.feed(CREATED) == b""
    part = b"event: response.output_text.delta\ndata: " + b"x" * 50
    assert relay.feed(part) == CREATED + part
    assert relay.has_tokens


def test_an_error_before_the_first_token_leaves_nothing_for_the_client() -> None:
    relay = EventSplitter(10_000, MARKS)
    assert relay.feed(CREATED) == b""
    assert relay.feed(b'data: {"error":{"code":500}}\n\n') == b""
    assert (relay.error, relay.has_tokens) == (b'{"error":{"code":500}}', False)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_marks_are_found_without_a_blank_after_the_colon(size: int) -> None:
    stream = b'data:{"choices":[]}\n\ndata:[DONE]\n\n'
    relay = EventSplitter(max_event_bytes=10_000)
    parts = [relay.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(parts) == stream
    assert relay.saw_done
    events = b'data: 1\n\ndata:{"error": "x"}\r\n\r\n'
    assert split_at_error(events) == (b"data: 1\n\n", b'{"error": "x"}')


UNFINISHED_STREAM = (
    b'data: {"choices":[{"text":"\\"finish_reason\\": \\"stop\\"","finish_reason":null}]}\n\n'
)
FINISHED = b'data: {"choices":[{"text":"","finish_reason": "stop"}]}\n\n'
END = b"data: [DONE]\n\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("stream", [UNFINISHED_STREAM, b""])
def test_an_end_without_a_reason_is_an_error(stream: bytes, size: int) -> None:
    relay = EventSplitter(max_event_bytes=10_000, needs_reason=True)
    all_bytes = stream + END
    parts = [relay.feed(all_bytes[at : at + size]) for at in range(0, len(all_bytes), size)]
    assert b"".join(parts) == stream
    assert relay.error == UNFINISHED
    assert not relay.saw_done


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_end_with_a_reason_is_none(size: int) -> None:
    relay = EventSplitter(max_event_bytes=10_000, needs_reason=True)
    stream = UNFINISHED_STREAM + FINISHED + END
    parts = [relay.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    assert b"".join(parts) == stream
    assert (relay.error, relay.saw_done) == (None, True)


def test_a_reason_may_be_inside_an_event_that_passed_in_parts() -> None:
    relay = EventSplitter(max_event_bytes=10, needs_reason=True)
    relay.feed(b'data: {"choices":[{"text":"long","finish_rea')
    relay.feed(b'son":"stop"}]}\n\n')
    assert relay.feed(END) == END
    assert relay.error is None

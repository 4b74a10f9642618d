"""An event relay passes whole events, and holds back those before the first token."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.delivered import NOTHING, AnswerPart
from paceline.runtime.gateway.http.sse import EventRelay
from paceline.runtime.gateway.http.stream_reader import EventNames
from paceline.runtime.gateway.usage import Usage

USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9,"completion_tokens":6}}\n\n'
)
STREAM = (
    'data: {"choices":[{"delta":{"content":"né 😀 data: [DONE]"}}]}\n\n'
    ":\n\n"
    'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    'data: {"choices":[],"usage":{"prompt_tokens":3,"total_tokens":9,"completion_tokens":6}}\n\n'
    "data: [DONE]\n\n"
).encode()
CREATED = b'event: response.created\ndata: {"sequence_number":0}\n\n'
DELTA = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n'
NAMES = EventNames(
    end=frozenset({"response.completed"}), before_tokens=frozenset({"response.created"})
)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, *cuts, len(stream)})
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_cut_anywhere_passes_unchanged_in_whole_events(cuts: list[int]) -> None:
    relay = EventRelay()
    parts = [relay.feed(data) for data in cut(STREAM, cuts)]
    assert b"".join(part.data for part in parts) == STREAM
    assert all(part.data.endswith(b"\n\n") for part in parts if part.data)
    assert relay.saw_done
    assert parts[-1].usage == Usage(3, 6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_usage_that_the_client_did_not_ask_for_is_removed(cuts: list[int]) -> None:
    relay = EventRelay(hides_usage=True)
    parts = [relay.feed(data) for data in cut(STREAM, cuts)]
    assert b"".join(part.data for part in parts) == STREAM.replace(USAGE, b"")
    assert relay.saw_done
    assert parts[-1].usage == Usage(3, 6)


@pytest.mark.parametrize("decoration", [b"id: 7\n", b"event: message\n", b": comment\n"])
def test_a_decorated_usage_is_removed_too(decoration: bytes) -> None:
    assert EventRelay(hides_usage=True).feed(decoration + USAGE) == NOTHING


def test_only_the_event_without_choices_is_removed() -> None:
    """The usage inside a text, and that of a chunk with a choice, stay."""
    relay = EventRelay(hides_usage=True)
    events = (
        b'data: {"choices":[{"text":"\\"choices\\":[],\\"usage\\":{"}]}\n\n'
        b'data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
        b'data: {"choices":[{"text":"","finish_reason":"stop"}]}\n\n'
    )
    assert relay.feed(events).data == events
    ended = relay.feed(USAGE.replace(b"\n", b"\r\n") + b"data: [DONE]\n\n")
    assert ended.data == b"data: [DONE]\n\n"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(CREATED + DELTA)), max_size=12))
def test_events_before_the_first_token_are_held_back_until_it_comes(cuts: list[int]) -> None:
    relay, sent = EventRelay(NAMES), b""
    parts = cut(CREATED + DELTA, cuts)
    for index, data in enumerate(parts):
        sent += relay.feed(data).data
        assert relay.has_tokens == bool(sent) == (index == len(parts) - 1)
    assert sent == CREATED + DELTA


def test_comments_pass_at_once_and_are_no_token() -> None:
    relay = EventRelay(NAMES)
    assert relay.feed(CREATED) == NOTHING
    assert relay.feed(b": keep-alive\n\n") == AnswerPart(b":\n\n", is_comment=True)
    assert not relay.has_tokens
    assert relay.feed(DELTA).data == CREATED + DELTA


@pytest.mark.parametrize(
    "fields",
    [
        b'"choices":[{"delta":{"role":"assistant","content":""}}]',
        b'"choices":[{"delta":{"role":"assistant","content":null}}]',
        b'"choices":[{"delta":{}}]',
        b'"choices":[{"delta":{"content":""}}]',
        b'"choices":[],"prompt_filter_results":[]',
        b'"choices":[{"text":""}]',
    ],
)
def test_what_comes_before_the_answer_is_no_token(fields: bytes) -> None:
    relay = EventRelay()
    role = b"data: {" + fields + b"}\n\n"
    assert relay.feed(role) == NOTHING
    assert relay.feed(b'event: ping\ndata: {"type":"ping"}\n\n') == NOTHING
    assert not relay.has_tokens
    call = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}\n\n'
    assert relay.feed(call).data == role + call
    assert relay.has_tokens


@pytest.mark.parametrize(
    "delta",
    [
        b'{"role":"assistant","content":"a"}',
        b'{"role":"assistant","tool_calls":[{"index":0}]}',
        b'{"role":"assistant","content":null,"reasoning":"hm"}',
        b'{"refusal":"no"}',
        b'{"function_call":{"name":"f"}}',
    ],
)
def test_every_other_event_of_a_chat_is_a_token(delta: bytes) -> None:
    relay = EventRelay()
    assert relay.feed(b": keep-alive\n\n").is_comment
    assert not relay.has_tokens
    event = b'data: {"choices":[{"delta":' + delta + b"}]}\n\n"
    assert relay.feed(event).data == event
    assert relay.has_tokens


def test_a_role_with_the_end_of_its_answer_is_sent() -> None:
    relay = EventRelay()
    event = b'data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop"}]}\n\n'
    assert relay.feed(event).data == event


def test_events_before_the_first_token_are_not_held_without_a_limit() -> None:
    """Two of them may have the longest length, as they repeat the request."""
    relay = EventRelay(NAMES, max_event_bytes=150)
    for _ in range(2):
        relay.feed(CREATED)
    with pytest.raises(ValueError, match="before the first token"):
        relay.feed(CREATED)


def test_an_error_before_the_first_token_leaves_nothing_for_the_client() -> None:
    relay = EventRelay(NAMES)
    assert relay.feed(CREATED) == NOTHING
    assert relay.feed(b'data: {"error":{"code":500}}\n\n') == NOTHING
    assert (relay.error, relay.has_tokens) == (b'{"error":{"code":500}}', False)


def test_a_stream_with_tokens_in_unknown_fields_begins_after_a_while() -> None:
    relay, event = EventRelay(), b'data: {"choices":[{"delta":{"audio":"x"}}]}\n\n'
    for _ in range(64):
        assert relay.feed(event) == NOTHING
    assert relay.feed(event).data == 65 * event


def test_a_finished_stream_without_its_end_gets_one() -> None:
    relay = EventRelay()
    relay.feed(b'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\n')
    assert relay.feed(b"") == NOTHING
    assert relay.has_finished
    assert not relay.lacks_usage
    assert EventRelay(shows_usage=True).lacks_usage
    assert relay.closing_part().data == b"data: [DONE]\n\n"

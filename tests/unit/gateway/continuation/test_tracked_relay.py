"""Streams of the first replica, byte for byte, and how they are closed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.continuation.resumable_stream import ResumableStream
from paceline.runtime.gateway.continuation.tracked_relay import TrackedRelay
from paceline.runtime.gateway.delivered import NOTHING, DeliveredAnswer
from paceline.runtime.gateway.usage import Usage
from unit.gateway.continuation.streams import (
    CHAT,
    DECORATIONS,
    DONE,
    WITH_IDS,
    begun,
    chat_chunk,
    chunks_in,
    deliver,
    event,
    role_chunk,
    text_in,
    tracked,
)

WITHOUT = role_chunk(None) + chat_chunk('é "token_ids":[9] 🚲', None) + chat_chunk("!", None)


def test_the_client_gets_the_bytes_of_a_stream_without_ids() -> None:
    delivered, sent = tracked(WITH_IDS)
    assert sent == WITHOUT
    assert list(delivered.prompt_ids or ()) == [1, 2, 3]
    assert list(delivered.ids) == [4, 5, 6]
    assert delivered.text == 'é "token_ids":[9] 🚲!'
    assert delivered.lost is None


def test_a_client_that_requested_ids_keeps_them() -> None:
    assert tracked(WITH_IDS, shows_ids=True)[1] == WITH_IDS


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, len(WITH_IDS)), max_size=10))
def test_pieces_make_no_difference(cuts: list[int]) -> None:
    delivered = DeliveredAnswer()
    relay = TrackedRelay(shows_ids=False)
    edges = [0, *sorted(cuts), len(WITH_IDS)]
    parts = [relay.feed(WITH_IDS[a:b]) for a, b in itertools.pairwise(edges) if a < b]
    sent = b"".join(deliver(part, delivered) for part in parts)
    assert sent == WITHOUT
    assert list(delivered.ids) == [4, 5, 6]


def test_half_an_event_is_not_remembered() -> None:
    whole = role_chunk([1]) + chat_chunk("a", [4])
    delivered, sent = tracked(whole + chat_chunk("b", [5])[:-1])
    assert list(delivered.ids) == [4]
    assert text_in(sent) == "a"


def test_tokens_before_an_abort_are_kept() -> None:
    whole = role_chunk([1]) + chat_chunk("a", [4])
    delivered, sent = tracked(whole + chat_chunk("", [], "abort") + DONE)
    assert list(delivered.ids) == [4]
    assert text_in(sent) == "a"
    assert delivered.finish_reason is None


@pytest.mark.parametrize(
    ("event_bytes", "reason"),
    [
        (chat_chunk("a", None), "does not report token ids"),
        (event({"choices": [{"index": 1, "delta": {}, "token_ids": [1]}]}), "several answers"),
        (event({"choices": [{"delta": {"reasoning": "hm"}, "token_ids": [1]}]}), "reasoning"),
        (event({"choices": [{"delta": {"tool_calls": [{}]}, "token_ids": [1]}]}), "tool calls"),
        (event({"choices": [{"index": "0", "text": "a"}]}), "no chunk"),
        (event({"choices": [{"text": "a", "token_ids": [2**40]}]}), "no chunk"),
    ],
)
def test_a_stream_that_reports_less_cannot_be_continued(event_bytes: bytes, reason: str) -> None:
    delivered, sent = tracked(role_chunk([1]) + event_bytes)
    assert reason in (delivered.lost or "")
    assert sent.startswith(role_chunk(None))
    assert len(sent) > len(role_chunk(None)), "what cannot be continued still passes"


def parsed_chunk(delta: dict[str, Any], ids: list[int] | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "token_ids": ids}
    return event({"id": "chatcmpl-1", "created": 17, "model": "m", "choices": [choice]})


PARSED = (
    role_chunk([1, 2, 3])
    + parsed_chunk({"reasoning": "hm"}, [4, 5])
    + parsed_chunk({}, [6])
    + parsed_chunk({"content": "a"}, [7])
    + parsed_chunk({}, [8], finish="stop")
)


def test_a_stream_that_begins_without_text_is_sent_with_its_first_text() -> None:
    """So that it can begin anew if its replica fails before."""
    relay, delivered = TrackedRelay(shows_ids=False), DeliveredAnswer()
    assert relay.feed(role_chunk([1]) + parsed_chunk({}, [4])) == NOTHING
    assert not relay.has_tokens
    sent = deliver(relay.feed(parsed_chunk({"content": "a"}, [5])), delivered)
    assert relay.has_tokens
    assert sent.startswith(role_chunk(None))
    assert (list(delivered.ids), delivered.text, delivered.lost) == ([4, 5], "a", None)
    deliver(relay.feed(parsed_chunk({}, [6])), delivered)
    assert (list(delivered.ids), delivered.lost) == ([4, 5, 6], None)


def test_tokens_of_an_answer_that_the_engine_parses_are_counted() -> None:
    """The client did not ask for the usage, and the stream is not continued."""
    delivered, _ = tracked(PARSED)
    assert "reasoning" in (delivered.lost or "")
    assert delivered.usage == Usage(3, 5)


def test_tokens_of_an_answer_with_ids_for_some_chunks_only_are_not_counted() -> None:
    delivered, _ = tracked(PARSED + parsed_chunk({"reasoning": "hm"}, None))
    assert delivered.usage is None


def test_a_parsed_answer_that_lacks_only_its_end_is_closed() -> None:
    delivered, _ = tracked(PARSED)
    stream = ResumableStream(CHAT, delivered)
    assert stream.needs_no_engine
    assert stream.closing_events().data == DONE


def test_a_whole_answer_without_its_end_is_closed() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    delivered = begun(WITH_IDS + chat_chunk("", [7], finish="stop"))
    assert delivered.finish_reason == "stop"
    sent = ResumableStream(request, delivered).closing_events().data
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks_in(sent)] == [4]
    assert sent.endswith(DONE)


def test_usage_that_went_out_is_not_sent_again() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    usage = event({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 3}})
    delivered = begun(WITH_IDS + chat_chunk("", [7], finish="stop") + usage)
    assert ResumableStream(request, delivered).closing_events().data == DONE


def test_a_first_replica_without_ids_leaves_no_usage_to_the_gateway() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    delivered = begun(role_chunk([1]) + chat_chunk("a", None) + chat_chunk("", None, "stop"))
    with pytest.raises(ValueError, match="not reported"):
        ResumableStream(request, delivered).closing_events()
    assert ResumableStream(CHAT, delivered).closing_events().data == DONE


@pytest.mark.parametrize("decoration", DECORATIONS)
def test_what_is_recorded_is_what_was_sent_whatever_the_events_look_like(decoration: bytes) -> None:
    events = [role_chunk([1, 2, 3]), chat_chunk("a", [4]), chat_chunk("b", [5])]
    delivered, sent = tracked(b"".join(decoration + data for data in events))
    assert (list(delivered.ids), delivered.text, delivered.lost) == ([4, 5], "ab", None)
    assert sent == role_chunk(None) + chat_chunk("a", None) + chat_chunk("b", None)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_another_kind_are_recorded_too(end: str) -> None:
    delivered, sent = tracked(WITH_IDS.replace(b"\n", end.encode()))
    assert sent == WITHOUT
    assert list(delivered.ids) == [4, 5, 6]


def test_events_that_a_proxy_has_encoded_anew_are_recorded_and_hide_their_ids() -> None:
    spaced = WITH_IDS.replace(b'"token_ids":[', b'"token_ids" : [').replace(b"[4,5]", b"[4, 5]")
    delivered, sent = tracked(spaced)
    assert list(delivered.ids) == [4, 5, 6]
    assert b"[4" not in sent
    assert b"[6" not in sent


def test_an_end_before_the_answer_is_complete_does_not_end_a_tracked_stream() -> None:
    relay = TrackedRelay(shows_ids=False)
    assert text_in(relay.feed(role_chunk([1]) + chat_chunk("a", [4]) + DONE).data) == "a"
    assert (relay.saw_done, relay.fault is not None) == (False, True)


@pytest.mark.parametrize("shows_ids", [False, True])
def test_the_longest_event_is_as_long_as_given(shows_ids: bool) -> None:
    """The first one has the ids of the prompt, whose number grows with the body."""
    for max_bytes, is_too_long in ((300, False), (200, True)):
        relay = TrackedRelay(shows_ids=shows_ids, max_event_bytes=max_bytes)
        relay.feed(b"data: {" + b" " * 240)
        relay.feed(b"}")
        assert (relay.fault is not None) is is_too_long

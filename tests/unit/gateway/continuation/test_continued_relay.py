"""Streams after the resume point, byte for byte."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.continuation.continued_relay import ContinuedRelay
from paceline.runtime.gateway.continuation.resume_point import ResumePoint
from paceline.runtime.gateway.delivered import NOTHING
from paceline.runtime.gateway.usage import Usage
from unit.gateway.continuation.streams import (
    CHAT,
    DECORATIONS,
    DONE,
    begun,
    chat_chunk,
    chunks_in,
    completion_chunk,
    deliver,
    event,
    role_chunk,
    text_in,
)


def test_a_continued_chat_looks_like_one_stream() -> None:
    delivered = begun()
    relay = ContinuedRelay(CHAT, delivered, ResumePoint(3, ""))
    sent = deliver(relay.feed(completion_chunk(" on", [7], prompt_ids=[4])), delivered)
    assert sent == chat_chunk(" on", None)
    sent = deliver(relay.feed(completion_chunk("", [8], finish="stop") + DONE), delivered)
    assert sent == chat_chunk("", None, finish="stop") + DONE
    assert relay.saw_done
    assert list(delivered.ids) == [4, 5, 6, 7, 8]


def test_a_continued_completion_keeps_its_id() -> None:
    delivered = begun(completion_chunk("a", [4], prompt_ids=[1]))
    relay = ContinuedRelay({"model": "m", "prompt": "x"}, delivered, ResumePoint(1, ""))
    other = completion_chunk("b", [5]).replace(b"cmpl-2", b"cmpl-9").replace(b":18,", b":99,")
    assert relay.feed(other).data == completion_chunk("b", None)


def test_usage_counts_the_answer_on_both_sides_of_the_resume_point() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    relay = ContinuedRelay(request, begun(), ResumePoint(3, ""))
    sent = relay.feed(completion_chunk("b", [7, 8], finish="length") + DONE).data
    *_, usage = chunks_in(sent)
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "total_tokens": 8, "completion_tokens": 5}
    assert sent.endswith(DONE)


def test_usage_is_not_sent_unless_requested() -> None:
    relay = ContinuedRelay(CHAT, begun(), ResumePoint(3, ""))
    sent = relay.feed(completion_chunk("b", [7], finish="length") + DONE).data
    assert b"usage" not in sent


def test_continuous_usage_continues() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    relay = ContinuedRelay({**CHAT, "stream_options": options}, begun(), ResumePoint(3, ""))
    (chunk,) = chunks_in(relay.feed(completion_chunk("b", [7])).data)
    assert chunk["usage"]["completion_tokens"] == 4


def test_unsent_text_comes_first_and_ids_after_the_resume_point_are_dropped() -> None:
    delivered = begun()
    relay = ContinuedRelay(CHAT, delivered, ResumePoint(2, "unsent "))
    assert text_in(deliver(relay.feed(completion_chunk("new", [9])), delivered)) == "unsent new"
    assert list(delivered.ids) == [4, 5, 9]


def test_a_client_of_ids_does_not_get_those_again_that_are_generated_again() -> None:
    request = {**CHAT, "return_token_ids": True}
    delivered = begun()
    relay = ContinuedRelay(request, delivered, ResumePoint(1, ""))
    chunks = [completion_chunk("a", [5]), completion_chunk("b", [6, 7])]
    sent = [deliver(relay.feed(chunk), delivered) for chunk in chunks]
    assert [chunk["choices"][0]["token_ids"] for chunk in chunks_in(b"".join(sent))] == [[], [7]]
    assert list(delivered.ids) == [4, 5, 6, 7]


def test_ids_generated_again_before_the_next_resume_point_are_not_shown_again() -> None:
    request = {**CHAT, "return_token_ids": True}
    delivered = begun()
    first = ContinuedRelay(request, delivered, ResumePoint(1, ""))
    deliver(first.feed(completion_chunk("a", [5])), delivered)
    second = ContinuedRelay(request, delivered, ResumePoint(1, ""))
    sent = deliver(second.feed(completion_chunk("a", [5, 6, 7])), delivered)
    assert list(delivered.ids) == [4, 5, 6, 7]
    assert [chunk["choices"][0]["token_ids"] for chunk in chunks_in(sent)] == [[7]]


@pytest.mark.parametrize(("ids", "finish"), [([5, 9], None), ([5], "stop")])
def test_ids_that_come_out_differently_cannot_be_taken_back(
    ids: list[int], finish: str | None
) -> None:
    relay = ContinuedRelay({**CHAT, "return_token_ids": True}, begun(), ResumePoint(1, ""))
    with pytest.raises(ValueError, match="generated differently"):
        relay.feed(completion_chunk("a", ids, finish))


def test_a_stop_string_over_the_resume_point_ends_the_answer_and_the_engine() -> None:
    delivered = begun(role_chunk([1]) + chat_chunk("abc", [4, 5, 6]))
    relay = ContinuedRelay({**CHAT, "stop": ["END"]}, delivered, ResumePoint(3, "E"))
    sent = relay.feed(completion_chunk("ND rest", [7, 8])).data
    (last,) = chunks_in(sent)
    assert last["choices"][0]["delta"]["content"] == ""
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["choices"][0]["stop_reason"] == "END"
    assert sent.endswith(DONE)
    assert relay.saw_done, "the engine would keep generating"
    assert relay.feed(completion_chunk("more", [9])).data == b""


def test_an_answer_with_no_tokens_left_is_ended_without_an_engine() -> None:
    sent = ContinuedRelay(CHAT, begun(), ResumePoint(3, "rest")).finish("length").data
    assert sent == chat_chunk("rest", None, finish="length") + DONE


def test_an_error_of_the_continuing_engine_is_no_chunk() -> None:
    relay = ContinuedRelay(CHAT, begun(), ResumePoint(3, ""))
    assert relay.feed(b'data: {"error":{"message":"x","code":500}}\n\n' + DONE).data == b""
    assert relay.error is not None
    assert not relay.saw_done


def test_tokens_before_an_abort_of_the_continuing_engine_are_kept() -> None:
    delivered = begun()
    relay = ContinuedRelay(CHAT, delivered, ResumePoint(3, ""))
    aborted = completion_chunk("", [], "abort")
    sent = deliver(relay.feed(completion_chunk("b", [7]) + aborted + DONE), delivered)
    assert text_in(sent) == "b"
    assert list(delivered.ids) == [4, 5, 6, 7]
    assert relay.error is not None
    assert delivered.finish_reason is None


def test_what_was_not_sent_is_no_part_of_the_answer() -> None:
    """The next replica then continues from the same token."""
    delivered = begun()
    point = ResumePoint(2, "unsent ")
    ContinuedRelay(CHAT, delivered, point).feed(completion_chunk("lost", [9], "stop") + DONE)
    assert list(delivered.ids) == [4, 5, 6]
    assert delivered.finish_reason is None
    sent = deliver(
        ContinuedRelay(CHAT, delivered, point).feed(completion_chunk("new", [9])), delivered
    )
    assert text_in(sent) == "unsent new"
    assert list(delivered.ids) == [4, 5, 9]


def test_bytes_that_are_no_stream_are_refused() -> None:
    broken = ContinuedRelay(CHAT, begun(), ResumePoint(3, ""))
    assert broken.feed(b"data: {broken\n\n") == NOTHING
    assert broken.fault == "an event is no JSON"
    with pytest.raises(ValueError, match="no chunk"):
        ContinuedRelay(CHAT, begun(), ResumePoint(3, "")).feed(event({"choices": "none"}))


USAGE_OF_REST = event({"choices": [], "usage": {"prompt_tokens": 6, "completion_tokens": 2}})


def test_usage_is_that_of_the_engine_where_it_reports_no_ids() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    delivered = begun()
    relay = ContinuedRelay(request, delivered, ResumePoint(3, ""))
    events = completion_chunk("b", None) + completion_chunk("c", None, finish="stop")
    sent = deliver(relay.feed(events), delivered)
    sent += deliver(relay.feed(USAGE_OF_REST + DONE), delivered)
    assert text_in(sent) == "bc"
    assert chunks_in(sent)[-1]["usage"]["completion_tokens"] == 5
    assert delivered.usage == Usage(3, 5)
    assert delivered.lost == "the replica does not report token ids", "it is not continued again"


def test_ids_for_some_chunks_only_do_not_count() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    relay = ContinuedRelay(request, begun(), ResumePoint(3, ""))
    events = completion_chunk("b", [7]) + completion_chunk("c", None, finish="stop")
    sent = relay.feed(events + USAGE_OF_REST + DONE).data
    assert chunks_in(sent)[-1]["usage"]["completion_tokens"] == 5


def test_usage_that_nobody_reports_is_not_made_up() -> None:
    request = {**CHAT, "stream_options": {"include_usage": True}}
    events = completion_chunk("b", None, finish="stop")
    with pytest.raises(ValueError, match="not reported"):
        ContinuedRelay(request, begun(), ResumePoint(3, "")).feed(events + DONE)
    always = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    with pytest.raises(ValueError, match="does not report the tokens"):
        ContinuedRelay({**CHAT, **always}, begun(), ResumePoint(3, "")).feed(events)
    sent = ContinuedRelay(CHAT, begun(), ResumePoint(3, "")).feed(events + DONE).data
    assert sent.endswith(DONE), "a client that does not read it misses nothing"


def test_ids_that_the_client_reads_cannot_be_left_out() -> None:
    relay = ContinuedRelay({**CHAT, "return_token_ids": True}, begun(), ResumePoint(3, ""))
    with pytest.raises(ValueError, match="token ids"):
        relay.feed(completion_chunk("b", None))


@pytest.mark.parametrize("decoration", DECORATIONS)
def test_a_decorated_continuation_is_one_stream_with_the_beginning(decoration: bytes) -> None:
    delivered = begun()
    relay = ContinuedRelay(CHAT, delivered, ResumePoint(3, ""))
    events = [completion_chunk("x", [7]), completion_chunk("", [8], finish="stop"), DONE]
    sent = deliver(relay.feed(b"".join(decoration + data for data in events)), delivered)
    assert sent == chat_chunk("x", None) + chat_chunk("", None, finish="stop") + DONE
    assert list(delivered.ids) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("token", [-1, 2**32, 2**70])
def test_ids_that_are_no_tokens_cannot_continue_a_stream(token: int) -> None:
    """They must not reach what is recorded after it was sent."""
    with pytest.raises(ValueError, match="no tokens"):
        ContinuedRelay(CHAT, begun(), ResumePoint(3, "")).feed(completion_chunk("a", [token]))

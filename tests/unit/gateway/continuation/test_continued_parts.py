"""The parts of a continued stream, with what each one adds to the answer."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.gateway.continuation.continued_relay import (
    ContinuedRelay,
    max_held_chars,
    stop_strings_of,
)
from paceline.runtime.gateway.continuation.resume_point import ResumePoint
from paceline.runtime.gateway.continuation.tracked_relay import TrackedRelay
from paceline.runtime.gateway.delivered import NOTHING, AnswerPart, DeliveredAnswer, TokenDelta
from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES
from unit.gateway.continuation.streams import (
    DONE,
    chat_chunk,
    chunks_in,
    completion_chunk,
    role_chunk,
    text_in,
)

CHAT: dict[str, Any] = {"model": "m", "messages": []}
WITH_USAGE = {"stream_options": {"include_usage": True}}
BEGUN = role_chunk([1, 2]) + chat_chunk("ab", [4, 5]) + chat_chunk("c", [6])


def delivered() -> DeliveredAnswer:
    """Three tokens, "abc"."""
    answer = DeliveredAnswer()
    answer.commit(TrackedRelay(shows_ids=False).feed(BEGUN))
    return answer


def continued(num_ids: int = 3, unsent_text: str = "", **fields: object) -> ContinuedRelay:
    return ContinuedRelay({**CHAT, **fields}, delivered(), ResumePoint(num_ids, unsent_text))


def test_a_part_adds_its_ids_and_text_after_the_resume_point() -> None:
    relay = continued(2, "un")
    part = relay.feed(completion_chunk("d", [7]) + completion_chunk("e", [8]))
    assert part == AnswerPart(
        chat_chunk("und", None) + chat_chunk("e", None), TokenDelta(2, [7, 8], "unde")
    )
    part = relay.feed(completion_chunk("f", [9], "length"))
    assert part.tokens == TokenDelta(4, [9], "f", "length")


def test_a_part_begins_after_the_ids_that_the_client_has_already() -> None:
    """It requested them; those after the resume point are generated again."""
    relay = continued(1, return_token_ids=True)
    part = relay.feed(completion_chunk("b", [5]))
    assert part.tokens == TokenDelta(3, [], "b")
    part = relay.feed(completion_chunk("c", [6, 7]))
    assert part.tokens == TokenDelta(3, [7], "c")
    part = relay.feed(completion_chunk("d", [8]))
    assert part.tokens == TokenDelta(4, [8], "d")


def test_events_without_a_choice_add_nothing() -> None:
    assert continued().feed(b": keep-alive\n\n") == NOTHING
    assert continued().feed(b'data: {"choices":[]}\n\n') == NOTHING


def test_the_answer_is_complete_once_it_has_finished_and_the_engine_says_so() -> None:
    relay = continued(**WITH_USAGE)
    finished = relay.feed(completion_chunk("d", [7], "stop"))
    assert finished.data == chat_chunk("d", None, "stop")
    assert finished.tokens == TokenDelta(3, [7], "d", "stop", has_usage=False)
    assert not relay.saw_done
    ended = relay.feed(DONE)
    assert ended.data.endswith(DONE)
    assert ended.tokens == TokenDelta(4, [], has_usage=True)
    assert relay.saw_done
    assert relay.feed(completion_chunk("e", [8])) == NOTHING


def test_an_end_without_usage_has_none() -> None:
    relay = continued()
    part = relay.feed(completion_chunk("d", [7], "stop") + DONE)
    assert part.tokens == TokenDelta(3, [7], "d", "stop", has_usage=False)


def test_an_end_of_the_stream_that_does_not_end_the_answer_is_none() -> None:
    relay = continued()
    assert relay.feed(completion_chunk("d", [7]) + DONE).data == chat_chunk("d", None)
    assert not relay.saw_done


def test_chunks_after_the_last_one_are_dropped() -> None:
    part = continued().feed(completion_chunk("d", [7], "stop") + completion_chunk("e", [8]) + DONE)
    assert part.data == chat_chunk("d", None, "stop") + DONE


def test_characters_that_could_begin_a_stop_string_wait_until_the_end() -> None:
    relay = continued(stop=["END"])
    first = relay.feed(completion_chunk("deE", [7]))
    assert (text_in(first.data), first.tokens) == ("d", TokenDelta(3, [7], "d"))
    last = relay.feed(completion_chunk("N", [8], "length"))
    assert (text_in(last.data), last.tokens) == ("eEN", TokenDelta(4, [8], "eEN", "length"))


def test_a_stop_string_that_is_shown_ends_the_answer_too() -> None:
    relay = continued(stop="END", include_stop_str_in_output=True)
    part = relay.feed(completion_chunk("dEND rest", [7, 8]))
    assert part.tokens == TokenDelta(3, [7, 8], "dEND", "stop")
    (choice,) = chunks_in(part.data)[0]["choices"]
    assert choice["stop_reason"] == "END"


def test_an_answer_without_tokens_left_ends_with_its_unsent_text() -> None:
    relay = continued(2, "un", **WITH_USAGE)
    part = relay.finish("length")
    assert part.tokens == TokenDelta(2, [], "un", "length", has_usage=True)
    assert part.data.startswith(chat_chunk("un", None, "length"))
    assert part.data.endswith(DONE)
    assert chunks_in(part.data)[-1]["usage"]["completion_tokens"] == 2
    assert relay.saw_done


def test_unsent_text_may_hold_a_stop_string_at_the_end() -> None:
    part = continued(2, "unEND", stop=["END"]).finish("length")
    assert part.tokens is not None
    assert part.tokens.text == "un"


def test_an_event_that_is_too_long_cannot_be_turned_into_a_chunk() -> None:
    relay = continued()
    assert relay.feed(b"data: {" + b" " * (MAX_EVENT_BYTES - 6)) == NOTHING
    assert relay.feed(b" ") == NOTHING
    assert relay.fault == "an event is longer than 16777216 bytes"


@pytest.mark.parametrize(
    ("fields", "stops", "num_held"),
    [
        ({}, [], 0),
        ({"stop": None}, [], 0),
        ({"stop": []}, [], 0),
        ({"stop": "END"}, ["END"], 2),
        ({"stop": ["a", "stop", "bc"]}, ["a", "stop", "bc"], 3),
        ({"stop": ["a"]}, ["a"], 0),
        ({"stop": "END", "include_stop_str_in_output": True}, ["END"], 0),
        ({"stop": "END", "include_stop_str_in_output": False}, ["END"], 2),
    ],
)
def test_the_longest_stop_string_holds_back_one_character_less(
    fields: dict[str, Any], stops: list[str], num_held: int
) -> None:
    assert stop_strings_of(fields) == stops
    assert max_held_chars(fields) == num_held


def test_events_before_the_first_token_leave_together_with_it() -> None:
    relay = TrackedRelay(shows_ids=True)
    assert relay.feed(role_chunk([1])) == NOTHING
    assert not relay.has_tokens
    assert relay.feed(b": keep-alive\n\n") == AnswerPart(b":\n\n", is_comment=True)
    part = relay.feed(chat_chunk("a", [4]))
    assert part.data == role_chunk([1]) + chat_chunk("a", [4])
    assert part.tokens is not None
    assert (list(part.tokens.ids), list(part.tokens.prompt_ids or ())) == ([4], [1])
    assert relay.has_tokens
    assert relay.feed(chat_chunk("b", [5])).data == chat_chunk("b", [5])


def test_events_before_the_first_token_are_not_held_without_a_limit() -> None:
    relay = TrackedRelay(shows_ids=True)
    empty = b'data: {"choices":[],"x":"' + b"y" * 2**20 + b'"}\n\n'
    for _ in range(15):
        assert relay.feed(empty) == NOTHING
    assert relay.num_held_bytes == 15 * (len(empty) + 64)
    with pytest.raises(ValueError, match="before the first token"):
        relay.feed(empty + empty)


def test_a_stream_may_end_without_a_token() -> None:
    relay = TrackedRelay(shows_ids=False)
    assert relay.feed(role_chunk([1])) == NOTHING
    last = chat_chunk("", None, "stop")
    assert relay.feed(last + DONE).data == role_chunk(None) + last + DONE

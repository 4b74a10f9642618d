"""What is read out of the chunks of a stream, by value."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.continuation.chunks import MAX_SILENT_IDS, ChunkReader
from paceline.runtime.gateway.delivered import ChunkHead, TokenDelta
from unit.gateway.continuation.streams import (
    DONE,
    chat_chunk,
    completion_chunk,
    event,
    read_events,
    role_chunk,
    silent_chunk,
)

HEAD = ChunkHead("chatcmpl-1", 17, "m")
USAGE = event({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 3}})


def taken(*events: bytes) -> list[TokenDelta]:
    """What each of these adds to the answer, with plain lists of ids."""
    reader, deltas = ChunkReader(), []
    for data in events:
        read_events(reader, data)
        delta = reader.take()
        prompt_ids = None if delta.prompt_ids is None else list(delta.prompt_ids)
        deltas.append(
            TokenDelta(
                delta.start,
                list(delta.ids),
                delta.text,
                delta.finish_reason,
                delta.head,
                prompt_ids,
                delta.has_usage,
                delta.lost,
                delta.has_all_ids,
                delta.num_silent_ids,
            )
        )
    return deltas


def test_each_part_has_what_its_events_add() -> None:
    assert taken(
        role_chunk([1, 2]) + chat_chunk("ab", [4, 5]),
        chat_chunk("c", [6]) + chat_chunk("", [], "stop"),
        USAGE,
    ) == [
        TokenDelta(0, [4, 5], "ab", None, HEAD, [1, 2], has_all_ids=True),
        TokenDelta(2, [6], "c", "stop", has_all_ids=True),
        TokenDelta(3, [], has_usage=True, has_all_ids=True),
    ]


def test_a_completion_reports_the_ids_of_its_prompt_in_its_choice() -> None:
    [delta] = taken(completion_chunk("a", [4], prompt_ids=[1]))
    assert (delta.prompt_ids, delta.ids, delta.text) == ([1], [4], "a")


def test_a_stream_without_ids_of_its_prompt_has_none() -> None:
    assert [delta.prompt_ids for delta in taken(chat_chunk("a", [4]), chat_chunk("b", [5]))] == [
        None,
        None,
    ]


def test_the_head_is_that_of_the_first_chunk() -> None:
    other = chat_chunk("b", [5]).replace(b"chatcmpl-1", b"chatcmpl-2")
    [delta] = taken(chat_chunk("a", [4]) + other)
    assert delta.head == HEAD


def test_a_chunk_without_these_fields_has_an_empty_head() -> None:
    [delta] = taken(event({"choices": [{"text": "a", "token_ids": [4]}]}))
    assert (delta.head, delta.ids, delta.lost) == (ChunkHead("", 0, ""), [4], None)


def test_line_ends_may_be_those_of_http() -> None:
    events = chat_chunk("a", [4]) + chat_chunk("b", [5])
    assert [list(delta.ids) for delta in taken(events.replace(b"\n", b"\r\n"))] == [[4, 5]]


def test_comments_between_chunks_are_skipped() -> None:
    [delta] = taken(chat_chunk("a", [4]) + b": keep-alive\n\n" + chat_chunk("b", [5]))
    assert (delta.ids, delta.text, delta.lost) == ([4, 5], "ab", None)


def test_nothing_is_read_after_the_end() -> None:
    [delta] = taken(chat_chunk("a", [4]) + DONE + chat_chunk("b", [5]))
    assert delta.ids == [4]


def test_nothing_is_read_once_ids_are_lost() -> None:
    first, second = taken(
        chat_chunk("a", [4]) + event({"choices": "broken"}) + chat_chunk("b", [5]),
        chat_chunk("c", [6]),
    )
    assert (first.ids, first.text, first.has_all_ids) == ([4], "a", False)
    assert first.lost == second.lost == "an event is no chunk of a stream"
    assert second.ids == []


def test_the_first_reason_stays() -> None:
    reader = ChunkReader()
    reader.lose("first", has_all_ids=True)
    assert reader.has_begun
    assert reader.take().has_all_ids
    reader.lose("second")
    reader.lose("third", has_all_ids=True)
    delta = reader.take()
    assert (delta.lost, delta.has_all_ids) == ("first", False)


def test_the_ids_of_a_parsed_answer_are_read_and_its_text_is_not() -> None:
    parsed = {"index": 0, "delta": {"reasoning_content": "hm", "content": "x"}, "token_ids": [4]}
    [delta] = taken(event({"choices": [parsed]}))
    assert (delta.ids, delta.text, delta.has_all_ids) == ([4], "", True)
    assert delta.lost == "the engine parses the answer into reasoning or tool calls"


def test_an_empty_delta_without_ids_is_no_parsed_answer() -> None:
    """Nor is one whose content is null."""
    empty = {"index": 0, "delta": {}}
    null = {"index": 0, "delta": {"content": None}, "token_ids": [4]}
    [delta] = taken(event({"choices": [empty]}) + event({"choices": [null]}))
    assert (delta.lost, delta.ids) == (None, [4])


def test_tokens_without_text_inside_an_answer_are_no_parsed_answer() -> None:
    """For a special token, or part of a character, an engine with a parser sends no content."""
    [delta] = taken(chat_chunk("a", [4]) + silent_chunk(5, 6) + chat_chunk("b", [7]))
    assert (delta.lost, delta.ids, delta.text) == (None, [4, 5, 6, 7], "ab")
    assert delta.num_silent_ids == 0, "those before other content are known to be no marker"
    [delta] = taken(chat_chunk("a", [4]) + silent_chunk(5, 6) + silent_chunk(7))
    assert delta.num_silent_ids == 3
    [delta] = taken(chat_chunk("a", [4]) + chat_chunk("", [5]))
    assert delta.num_silent_ids == 0


def test_content_that_is_null_is_no_content() -> None:
    """vLLM's Granite parser sends it while the text may become the beginning of reasoning."""
    null = {"delta": {"reasoning": None, "content": None}, "token_ids": [4, 5]}
    reader = ChunkReader()
    read_events(reader, role_chunk([1]) + event({"choices": [null]}))
    assert not reader.has_begun
    assert reader.take().num_silent_ids == 2


def test_tokens_without_text_at_the_start_are_told_apart_by_what_follows() -> None:
    reader = ChunkReader()
    read_events(reader, role_chunk([1]) + silent_chunk(5, 6))
    assert (reader.has_begun, reader.lost) == (False, None)
    read_events(reader, chat_chunk("\U0001f600", [7]))
    assert reader.has_begun
    delta = reader.take()
    assert (delta.lost, list(delta.ids), delta.text) == (None, [5, 6, 7], "\U0001f600")


@pytest.mark.parametrize("num_silent", [1, MAX_SILENT_IDS])
def test_reasoning_after_tokens_without_text_cannot_be_continued(num_silent: int) -> None:
    thought = event({"choices": [{"index": 0, "delta": {"reasoning": "hm"}, "token_ids": [9]}]})
    reader = ChunkReader()
    read_events(reader, silent_chunk(*range(num_silent)))
    assert not reader.has_begun
    read_events(reader, thought)
    assert reader.has_begun
    assert reader.take().lost == "the engine parses the answer into reasoning or tool calls"


def test_an_answer_that_stays_without_text_counts_as_parsed() -> None:
    reader = ChunkReader()
    read_events(reader, silent_chunk(*range(MAX_SILENT_IDS)) + silent_chunk(1))
    assert reader.has_begun
    delta = reader.take()
    assert delta.lost == "the engine parses the answer into reasoning or tool calls"
    assert (delta.has_all_ids, len(delta.ids)) == (True, MAX_SILENT_IDS + 1)


def test_tokens_without_text_inside_an_answer_may_be_many() -> None:
    """Only at the start does their number decide that the engine parses the answer."""
    [delta] = taken(chat_chunk("a", [4]) + silent_chunk(*range(MAX_SILENT_IDS + 1)))
    assert (delta.lost, delta.num_silent_ids) == (None, MAX_SILENT_IDS + 1)


def test_text_that_the_engine_holds_back_for_stop_strings_delays_the_start() -> None:
    reader = ChunkReader(max_held_chars=9)
    read_events(reader, silent_chunk(*range(MAX_SILENT_IDS + 9)))
    assert (reader.has_begun, reader.lost) == (False, None)
    read_events(reader, silent_chunk(1))
    assert reader.has_begun


def test_an_answer_begins_with_its_first_id_or_its_end() -> None:
    reader = ChunkReader()
    read_events(reader, role_chunk([1]))
    assert not reader.has_begun
    read_events(reader, chat_chunk("a", [4]))
    assert reader.has_begun
    ended = ChunkReader()
    read_events(ended, chat_chunk("", None, "stop"))
    assert ended.has_begun

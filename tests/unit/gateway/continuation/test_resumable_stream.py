"""The request that continues a stream, and streams that cannot be continued."""

from __future__ import annotations

import asyncio
import json

import pytest

from paceline.runtime.gateway.continuation.resumable_stream import (
    AskReplica,
    CannotContinue,
    DetokeniseFailed,
    ResumableStream,
    Resumption,
)
from paceline.runtime.gateway.delivered import NOTHING, AnswerPart, DeliveredAnswer, TokenDelta
from unit.gateway.continuation.streams import (
    DONE,
    chat_chunk,
    chunks_in,
    completion_chunk,
    role_chunk,
    silent_chunk,
)

REQUEST: dict[str, object] = {"model": "m", "prompt": "x", "max_tokens": 3}
BEGUN = completion_chunk("a", [97], prompt_ids=[120])


async def ask_bytes(path: str, body: bytes) -> tuple[int, bytes]:
    """A replica whose tokens are bytes."""
    assert path == "/detokenize"
    text = bytes(json.loads(body)["tokens"]).decode("utf-8", errors="replace")
    return 200, json.dumps({"prompt": text}).encode()


def resume(**request: object) -> Resumption | AnswerPart:
    """Of a stream that broke off inside a character."""
    delivered = DeliveredAnswer()
    stream = ResumableStream({"model": "m", "prompt": "x", "max_tokens": 9, **request}, delivered)
    chunk = completion_chunk("a", list("aé".encode()[:2]), prompt_ids=[120])
    delivered.commit(stream.relay().feed(chunk))
    return asyncio.run(stream.resume(ask_bytes, 100, {}))


@pytest.mark.parametrize("shows_ids", [False, True])
def test_ids_inside_a_character_are_generated_again_when_greedy(shows_ids: bool) -> None:
    resumption = resume(temperature=0, return_token_ids=shows_ids)
    assert isinstance(resumption, Resumption)
    sent_body = json.loads(resumption.body)
    assert sent_body["prompt"] == [120, *b"a"]
    assert sent_body["max_tokens"] == 8


def test_sampled_ids_that_were_shown_cannot_be_generated_again() -> None:
    """They could differ, and the failure would count against the continuing replica."""
    assert isinstance(resume(temperature=1), Resumption)
    with pytest.raises(CannotContinue, match="another replica may sample others"):
        resume(temperature=1, return_token_ids=True)


def delivered(*chunks: bytes) -> DeliveredAnswer:
    answer = DeliveredAnswer()
    relay = ResumableStream(REQUEST, answer).relay()
    for chunk in chunks:
        answer.commit(relay.feed(chunk))
    return answer


def continuation(
    request: dict[str, object] = REQUEST,
    *chunks: bytes,
    ask: AskReplica = ask_bytes,
    max_model_len: int | None = 100,
) -> Resumption | AnswerPart:
    stream = ResumableStream(request, delivered(*chunks or (BEGUN,)))
    return asyncio.run(stream.resume(ask, max_model_len, {"user": "u"}))


def test_a_stream_says_why_it_cannot_be_continued() -> None:
    assert ResumableStream(REQUEST, delivered(BEGUN)).why_not is None
    several = ResumableStream({**REQUEST, "n": 2}, delivered(BEGUN))
    assert (several.why_not, several.is_tracked) == ("n cannot be carried over", False)
    lost = ResumableStream(REQUEST, delivered(BEGUN, completion_chunk("b", None)))
    assert (lost.why_not, lost.is_tracked) == ("the engine does not report token ids", True)


def test_a_stream_without_ids_of_its_prompt_or_without_a_chunk_cannot_be_continued() -> None:
    for answer in (delivered(completion_chunk("a", [97])), DeliveredAnswer()):
        assert ResumableStream(REQUEST, answer).why_not == "the engine does not report token ids"
    headless = DeliveredAnswer()
    headless.commit(AnswerPart(b"a", TokenDelta(0, [97], "a", prompt_ids=[120])))
    assert ResumableStream(REQUEST, headless).why_not == "the engine does not report token ids"


def test_an_answer_with_its_finish_reason_needs_no_engine() -> None:
    assert not ResumableStream(REQUEST, delivered(BEGUN)).needs_no_engine
    ended = ResumableStream(REQUEST, delivered(BEGUN, completion_chunk("b", [98], "stop")))
    assert ended.needs_no_engine
    assert ended.closing_events() == AnswerPart(DONE, TokenDelta(2))


def test_closing_events_with_usage_count_all_tokens() -> None:
    request = {**REQUEST, "stream_options": {"include_usage": True}}
    answer = delivered(BEGUN, completion_chunk("b", [98], "stop"))
    part = ResumableStream(request, answer).closing_events()
    assert part.tokens == TokenDelta(2, has_usage=True)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks_in(part.data)] == [2]


def test_the_relay_shows_ids_to_a_client_that_requested_them() -> None:
    for shows_ids, expected in ((True, BEGUN), (False, completion_chunk("a", None))):
        stream = ResumableStream({**REQUEST, "return_token_ids": shows_ids}, DeliveredAnswer())
        assert stream.relay().feed(BEGUN).data == expected


def test_a_stream_begins_anew_while_the_engine_holds_its_text_back_for_a_stop_string() -> None:
    """An engine with a parser sends these tokens without content."""
    chat: dict[str, object] = {"model": "m", "messages": [], "stop": "s" * 40}
    chunks = role_chunk([120]) + silent_chunk(*b"x" * 39)
    assert ResumableStream(chat, DeliveredAnswer()).relay().feed(chunks) == NOTHING
    without = ResumableStream({**chat, "stop": None}, DeliveredAnswer()).relay()
    assert without.feed(chunks) != NOTHING


def test_the_rest_of_a_stream_is_requested() -> None:
    resumption = continuation()
    assert isinstance(resumption, Resumption)
    assert resumption.path == "/v1/completions"
    assert json.loads(resumption.body) == {
        "model": "m",
        "prompt": [120, 97],
        "max_tokens": 2,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": False},
        "user": "u",
    }


@pytest.mark.parametrize(("max_tokens", "left"), [(2, 1), (1, None)])
def test_without_a_token_left_the_answer_ends(max_tokens: int, left: int | None) -> None:
    found = continuation({**REQUEST, "max_tokens": max_tokens})
    if left is None:
        assert found == AnswerPart(
            completion_chunk("", None, "length") + DONE, TokenDelta(1, [], "", "length")
        )
    else:
        assert isinstance(found, Resumption)
        assert json.loads(found.body)["max_tokens"] == left


def test_sampled_ids_whose_text_was_shown_too_are_continued() -> None:
    found = continuation({**REQUEST, "temperature": 1, "return_token_ids": True})
    assert isinstance(found, Resumption)


def test_ids_that_do_not_give_the_text_cannot_be_continued() -> None:
    with pytest.raises(CannotContinue, match="do not decode to the text that was sent"):
        continuation(REQUEST, completion_chunk("z", [97], prompt_ids=[120]))


def silent_end(*ids: int) -> tuple[bytes, ...]:
    """An answer "a", and more ids for which an engine with a parser sends no content."""
    return role_chunk([120]) + chat_chunk("a", [97]), silent_chunk(*ids)


def test_a_marker_at_the_end_may_begin_what_another_replica_would_not_parse() -> None:
    chat: dict[str, object] = {"model": "m", "messages": [], "max_tokens": 9}
    with pytest.raises(CannotContinue, match="may have begun to parse reasoning or a tool call"):
        continuation(chat, *silent_end(*b"<t>"))


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            (role_chunk([120]) + chat_chunk("a", [*b"a<t>"]),), id="in the chunk of other tokens"
        ),
        pytest.param(
            (*silent_end(*b"<"), chat_chunk("b", [98]), silent_chunk(*b"<")), id="seen before"
        ),
    ],
)
def test_a_marker_at_the_end_is_found_wherever_it_came(chunks: tuple[bytes, ...]) -> None:
    chat: dict[str, object] = {"model": "m", "messages": [], "max_tokens": 9}
    with pytest.raises(CannotContinue, match="may have begun to parse reasoning or a tool call"):
        continuation(chat, *chunks)


def test_a_marker_is_no_text_held_back_for_a_stop_string() -> None:
    """Although it is shorter, and the text of the tokens before it is held back."""
    chat: dict[str, object] = {"model": "m", "messages": [], "max_tokens": 9, "stop": "12345678"}
    held = role_chunk([120]) + chat_chunk("a", [*b"abc"])
    assert isinstance(continuation(chat, held), Resumption)
    with pytest.raises(CannotContinue, match="may have begun to parse reasoning or a tool call"):
        continuation(chat, held, silent_chunk(*b"<t>"))


def test_a_completion_is_not_parsed() -> None:
    """Text of a special token at its end is generated again."""
    found = continuation({**REQUEST, "max_tokens": 9}, completion_chunk("a", [*b"a<t>"], None, [1]))
    assert isinstance(found, Resumption)
    assert json.loads(found.body)["prompt"] == [1, 97]


@pytest.mark.parametrize(
    ("request_ids", "changes"),
    [
        pytest.param(b"<t>", {"ignore_eos": True}, id="the model writes its end"),
        pytest.param("é".encode()[:1], {}, id="part of a character"),
        pytest.param("é".encode()[:1], {"stop": "12345678"}, id="the same with a stop string"),
    ],
)
def test_other_ids_without_text_at_the_end_are_generated_again(
    request_ids: bytes, changes: dict[str, object]
) -> None:
    chat: dict[str, object] = {"model": "m", "messages": [], "max_tokens": 9, **changes}
    found = continuation(chat, *silent_end(*request_ids))
    assert isinstance(found, Resumption)
    assert json.loads(found.body)["prompt"] == [120, 97]


def test_a_chat_without_any_limit_cannot_be_continued() -> None:
    chat: dict[str, object] = {"model": "m", "messages": []}
    with pytest.raises(CannotContinue, match="limits its length"):
        continuation(chat, max_model_len=None)
    assert isinstance(continuation(chat), Resumption)


def answering(status: int, body: bytes) -> AskReplica:
    async def ask(path: str, sent: bytes) -> tuple[int, bytes]:
        return status, body

    return ask


@pytest.mark.parametrize("status", [500, 503])
def test_a_replica_that_fails_to_detokenise_may_be_replaced(status: int) -> None:
    with pytest.raises(DetokeniseFailed, match=f"/detokenize answered {status}"):
        continuation(ask=answering(status, b'{"prompt":"x"}'))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b'{"prompt":"x"}'),
        (499, b""),
        (201, b'{"prompt":"x"}'),
        (200, b"{broken"),
        (200, b'{"prompt":"\xff"}'),
        (200, b'{"text":"x"}'),
        (200, b'{"prompt":5}'),
        (200, b"[]"),
    ],
)
def test_a_replica_that_does_not_detokenise_cannot_continue(status: int, body: bytes) -> None:
    with pytest.raises(CannotContinue, match=rf"does not detokenise \(status {status}\)"):
        continuation(ask=answering(status, body))


def test_the_replica_is_asked_for_the_text_of_its_own_model() -> None:
    asked: list[dict[str, object]] = []

    async def recording(path: str, body: bytes) -> tuple[int, bytes]:
        asked.append(json.loads(body))
        return await ask_bytes(path, body)

    continuation(ask=recording)
    assert asked == [{"model": "m", "tokens": [120]}, {"model": "m", "tokens": [120, 97]}]

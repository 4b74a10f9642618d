"""What the client has received, part by part."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.delivered import AnswerPart, ChunkHead, DeliveredAnswer, TokenDelta
from paceline.runtime.gateway.usage import Usage

HEAD = ChunkHead("cmpl-1", 17, "m")


def delivered(*parts: AnswerPart) -> DeliveredAnswer:
    answer = DeliveredAnswer()
    for part in parts:
        answer.commit(part)
    return answer


def tokens(delta: TokenDelta) -> AnswerPart:
    return AnswerPart(b"data: x\n\n", delta)


def test_parts_add_up() -> None:
    answer = delivered(
        tokens(TokenDelta(0, [4], "a", head=HEAD, prompt_ids=[1, 2])),
        tokens(TokenDelta(1, [5, 6], "b", "length")),
        tokens(TokenDelta(3, has_usage=True)),
    )
    assert answer.head == HEAD
    assert list(answer.prompt_ids or ()) == [1, 2]
    assert list(answer.ids) == [4, 5, 6]
    assert (answer.text, answer.finish_reason, answer.has_usage) == ("ab", "length", True)


def test_the_head_is_that_of_the_first_part() -> None:
    other = ChunkHead("cmpl-2", 18, "m")
    parts = [tokens(TokenDelta(0, [4], head=HEAD)), tokens(TokenDelta(1, [5], head=other))]
    assert delivered(*parts).head == HEAD


def test_ids_that_are_generated_again_replace_those_before() -> None:
    answer = delivered(tokens(TokenDelta(0, [4, 5, 6], "a")), tokens(TokenDelta(1, [9], "b")))
    assert list(answer.ids) == [4, 9]
    assert answer.text == "ab"


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([TokenDelta(0, [4], "a"), TokenDelta(1, [5], num_silent_ids=1)], 1),
        ([TokenDelta(0, [4], num_silent_ids=1), TokenDelta(1, [5], num_silent_ids=1)], 2),
        ([TokenDelta(0, [4], num_silent_ids=1), TokenDelta(1, [5, 6], num_silent_ids=1)], 1),
        ([TokenDelta(0, [4], num_silent_ids=1), TokenDelta(1, [5], "b")], 0),
        ([TokenDelta(0, [4], num_silent_ids=1), TokenDelta(1, has_usage=True)], 1),
        ([TokenDelta(0, [4, 5], num_silent_ids=1), TokenDelta(1, finish_reason="length")], 0),
    ],
)
def test_ids_without_content_count_at_the_end(deltas: list[TokenDelta], expected: int) -> None:
    assert delivered(*map(tokens, deltas)).num_silent_ids == expected


def test_tokens_are_counted_by_ids_else_by_the_engines_usage() -> None:
    assert delivered().usage is None
    assert delivered(tokens(TokenDelta(0, [4, 5]))).usage == Usage(0, 2)
    assert delivered(AnswerPart(b"x", usage=Usage(3, 7))).usage == Usage(3, 7)


def test_ids_that_are_not_all_recorded_are_not_counted() -> None:
    lost = TokenDelta(0, [4], lost="the engine parses the answer")
    assert delivered(tokens(lost)).usage is None
    usage = AnswerPart(b"x", TokenDelta(1), usage=Usage(3, 7))
    assert delivered(tokens(lost), usage).usage == Usage(3, 7)


def test_the_first_loss_is_kept() -> None:
    parts = [tokens(TokenDelta(0, lost="one")), tokens(TokenDelta(0, lost="two"))]
    assert delivered(*parts).lost == "one"

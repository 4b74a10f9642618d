"""The token after which a stream is continued, and the text that is not yet sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from paceline.runtime.gateway.continuation.resume_point import (
    ResumePoint,
    _agrees,
    find_resume_point,
    has_text_at_end,
    unsent_text,
)

PROMPT = list(b"Say it: ")
MAX_HELD = 3


async def bytes_as_tokens(ids: Sequence[int]) -> str:
    """A tokenizer whose tokens are single bytes."""
    return bytes(ids).decode("utf-8", errors="replace")


SPECIAL = 300


async def with_a_special_token(ids: Sequence[int]) -> str:
    return "".join("<|tool|>" if i == SPECIAL else chr(i) for i in ids)


def resume_point_after(emitted: bytes, delivered: str) -> ResumePoint | None:
    return asyncio.run(
        find_resume_point(PROMPT, list(emitted), delivered, MAX_HELD, bytes_as_tokens)
    )


def test_after_the_last_id_when_all_its_text_was_sent() -> None:
    assert resume_point_after(b"abc", "abc") == ResumePoint(3, "")


@pytest.mark.parametrize("num_bytes", [1, 2, 3])
def test_before_an_unfinished_character(num_bytes: int) -> None:
    emitted = b"ab" + "🚲".encode()[:num_bytes]
    assert resume_point_after(emitted, "ab") == ResumePoint(2, "")


def test_after_a_complete_character() -> None:
    assert resume_point_after("ab🚲".encode(), "ab🚲") == ResumePoint(6, "")


def test_an_unfinished_character_at_the_very_beginning() -> None:
    assert resume_point_after("🚲".encode()[:2], "") == ResumePoint(0, "")


def test_nothing_emitted() -> None:
    assert resume_point_after(b"", "") == ResumePoint(0, "")
    assert resume_point_after(b"", "text without ids") is None


def test_text_held_back_for_stop_strings_is_unsent() -> None:
    assert resume_point_after(b"abcdef", "abc") == ResumePoint(6, "def")


def test_text_held_back_before_an_unfinished_character_is_unsent_too() -> None:
    assert resume_point_after(b"abcd" + "é".encode()[:1], "abc") == ResumePoint(4, "d")


def test_text_that_the_engine_did_not_show_is_not_unsent() -> None:
    """For example a special token's: the resume point is before it, and it is generated again."""
    assert resume_point_after(b"abc" + b"<eot>"[:4], "abc") == ResumePoint(6, "<eo", True)
    emitted = [*b"abc", SPECIAL]
    found = find_resume_point(PROMPT, emitted, "abc", 0, with_a_special_token)
    assert asyncio.run(found) == ResumePoint(3, "", is_before_hidden_text=True)


def test_ids_that_do_not_give_the_delivered_text_have_no_resume_point() -> None:
    assert resume_point_after(b"abc", "abd") is None
    assert resume_point_after(b"abc", "abcd") is None


@pytest.mark.parametrize("hidden", [b"\x01", b"\x01\x02\x03\x04"])
def test_special_tokens_in_the_middle_are_not_compared(hidden: bytes) -> None:
    """The engine did not show them, and /detokenize writes them out."""
    emitted = b"long ago" + hidden + b" in a far" + hidden[:1] + b" land \xc3"

    async def writes_them_out(ids: Sequence[int]) -> str:
        return b"".join(b"<|%d|>" % i if i < 9 else bytes([i]) for i in ids).decode(
            errors="replace"
        )

    delivered = "long ago in a far land "
    point = asyncio.run(find_resume_point(PROMPT, list(emitted), delivered, 0, writes_them_out))
    assert point == ResumePoint(len(emitted) - 1, "")


def test_special_tokens_at_the_end_are_generated_again() -> None:
    """However many: with `ignore_eos` a model may write its end again and again."""

    async def writes_them_out(ids: Sequence[int]) -> str:
        return b"".join(b"<|end|>" if i == 1 else bytes([i]) for i in ids).decode()

    emitted = [*b"over", *[1] * 30]
    point = asyncio.run(find_resume_point(PROMPT, emitted, "over", 0, writes_them_out))
    assert point == ResumePoint(4, "", is_before_hidden_text=True)


def test_too_many_special_tokens_have_no_resume_point() -> None:
    emitted = b"a\x01\x02\x03\x04\x05" + b"b" * 20
    assert resume_point_after(emitted, "a" + "b" * 20) is None


def test_the_blank_before_the_first_word_is_kept() -> None:
    """A tokenizer that drops a text's first blank returns it after some of the prompt."""

    async def drops_first_blank(ids: Sequence[int]) -> str:
        return (await bytes_as_tokens(ids)).removeprefix(" ")

    emitted = list(b" word")
    found = find_resume_point(PROMPT, emitted, " word", 0, drops_first_blank)
    assert asyncio.run(found) == ResumePoint(5, "")


def test_a_text_that_changes_what_was_before_has_no_resume_point() -> None:
    assert unsent_text("b", "xb", "a") is None


PENDING = 301


async def with_pending_bytes(ids: Sequence[int]) -> str:
    """Ids that would complete a character later, however many they are."""
    text = "".join(chr(i) for i in ids if i != PENDING)
    return text + "\ufffd" * (PENDING in ids)


@pytest.mark.parametrize(("num_pending", "expected"), [(8, ResumePoint(1, "")), (9, None)])
def test_at_most_eight_ids_are_generated_again_for_a_character(
    num_pending: int, expected: ResumePoint | None
) -> None:
    emitted = [97, *[PENDING] * num_pending]
    found = find_resume_point(PROMPT, emitted, "a", 0, with_pending_bytes)
    assert asyncio.run(found) == expected


def requests_for(emitted: list[int], delivered: str, prompt: list[int]) -> list[list[int]]:
    """The ids whose text is asked for, one list for each request."""
    asked: list[list[int]] = []

    async def recording(ids: Sequence[int]) -> str:
        asked.append(list(ids))
        return await bytes_as_tokens(ids)

    asyncio.run(find_resume_point(prompt, emitted, delivered, MAX_HELD, recording))
    return asked


def test_a_complete_text_takes_two_requests() -> None:
    """The last four ids of the prompt alone, and with the answer."""
    context = list(b" it:")
    assert requests_for([*b"ab"], "ab", list(b"Say it:")) == [context, [*context, *b"ab"]]


def test_without_a_prompt_there_is_one_request() -> None:
    assert requests_for([*b"ab"], "ab", []) == [[*b"ab"]]


def test_a_special_token_at_the_beginning_is_found() -> None:
    found = find_resume_point(PROMPT, [SPECIAL, *b"ab"], "ab", 0, with_a_special_token)
    assert asyncio.run(found) == ResumePoint(3, "")


@pytest.mark.parametrize(
    ("ids", "num_last", "expected"),
    [
        (b"ab", 0, False),
        (b"ab", 1, True),
        (b"ab", 2, True),
        ("aé".encode()[:2], 1, False),
        ("a🚲".encode()[:4], 3, False),
        ("a🚲".encode()[:4], 2, False),
        ("a🚲".encode(), 1, True),
        ("aé".encode()[:2] + b"b", 2, True),
    ],
)
def test_whether_the_last_ids_have_text(ids: bytes, num_last: int, expected: bool) -> None:
    """An incomplete character at the end is no text, also where it began before these ids."""
    assert asyncio.run(has_text_at_end(list(ids), num_last, bytes_as_tokens)) is expected


def test_one_character_more_than_is_held_back_is_generated_again() -> None:
    assert resume_point_after(b"abcdefg", "abc") == ResumePoint(6, "def", True)


def test_texts_agree_only_after_the_same_context() -> None:
    assert _agrees("b", "ab", "a")
    assert _agrees("bc", "ab\ufffd", "a")
    assert not _agrees("b", "ac", "a")
    assert not _agrees("b", "xb", "a")
    assert unsent_text("b", "abc", "a") == "c"
    assert unsent_text("b", "ab\ufffd", "a") is None
    assert unsent_text("b", "ac", "a") is None

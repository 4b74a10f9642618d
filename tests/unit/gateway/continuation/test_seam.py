"""Where a stream is taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from paceline.gateway.continuation.seam import Anchor, Seam, find_seam, owed_text

PROMPT = list(b"Say it: ")
MAX_HELD = 3


async def bytes_as_tokens(ids: Sequence[int]) -> str:
    """A tokenizer whose tokens are single bytes."""
    return bytes(ids).decode("utf-8", errors="replace")


SPECIAL = 300


async def with_a_special_token(ids: Sequence[int]) -> str:
    return "".join("<|tool|>" if i == SPECIAL else chr(i) for i in ids)


def seam_after(emitted: bytes, delivered: str) -> Seam | None:
    return asyncio.run(find_seam(PROMPT, list(emitted), delivered, (), MAX_HELD, bytes_as_tokens))


def test_behind_the_last_id_when_all_its_text_went_out() -> None:
    assert seam_after(b"abc", "abc") == Seam(3, "")


@pytest.mark.parametrize("num_bytes", [1, 2, 3])
def test_before_an_unfinished_character(num_bytes: int) -> None:
    emitted = b"ab" + "🚲".encode()[:num_bytes]
    assert seam_after(emitted, "ab") == Seam(2, "")


def test_behind_a_finished_character() -> None:
    assert seam_after("ab🚲".encode(), "ab🚲") == Seam(6, "")


def test_an_unfinished_character_at_the_very_beginning() -> None:
    assert seam_after("🚲".encode()[:2], "") == Seam(0, "")


def test_nothing_emitted() -> None:
    assert seam_after(b"", "") == Seam(0, "")
    assert seam_after(b"", "text without ids") is None


def test_text_held_back_for_stop_strings_is_owed() -> None:
    assert seam_after(b"abcdef", "abc") == Seam(6, "def")


def test_text_held_back_before_an_unfinished_character_is_owed_too() -> None:
    assert seam_after(b"abcd" + "é".encode()[:1], "abc") == Seam(4, "d")


def test_text_that_the_engine_did_not_show_is_not_owed() -> None:
    """A special token's, say: the seam is put before it, and it is generated again."""
    assert seam_after(b"abc" + b"<eot>"[:4], "abc") == Seam(6, "<eo")
    emitted = [*b"abc", SPECIAL]
    found = asyncio.run(find_seam(PROMPT, emitted, "abc", (), 0, with_a_special_token))
    assert found == Seam(3, "")


def test_ids_without_text_further_back_do_not_hide_the_seam() -> None:
    """With `ignore_eos` an answer goes on behind its end mark, which the client never reads."""
    emitted = [*b"ab", SPECIAL, *b"cdefgh"]
    anchors = [Anchor(n, len([i for i in emitted[:n] if i != SPECIAL])) for n in range(1, 10)]

    def seam(delivered: str, emitted: list[int]) -> Seam | None:
        return asyncio.run(find_seam(PROMPT, emitted, delivered, anchors, 0, with_a_special_token))

    assert seam("abcdefgh", emitted) == Seam(9, "")
    assert seam("abcdefgX", emitted) is None
    assert seam("abcdefgh", [*emitted, SPECIAL]) == Seam(9, "")


def test_ids_that_do_not_give_the_delivered_text_have_no_seam() -> None:
    assert seam_after(b"abc", "abd") is None
    assert seam_after(b"abc", "abcd") is None


def test_the_blank_before_the_first_word_is_kept() -> None:
    """A tokenizer that drops a text's first blank gives it back behind some of the prompt."""

    async def drops_first_blank(ids: Sequence[int]) -> str:
        return (await bytes_as_tokens(ids)).removeprefix(" ")

    emitted = list(b" word")
    assert asyncio.run(find_seam(PROMPT, emitted, " word", (), 0, drops_first_blank)) == Seam(5, "")


def test_a_text_that_changes_what_was_before_has_no_seam() -> None:
    assert owed_text("b", "xb", "a") is None

"""Behind which token does the other replica go on, and which text is still owed to the client?

Ids run ahead of text: a character whose bytes are spread over tokens is held back until it is
whole, and with stop strings the engine holds back some characters more. Going on behind an
unfinished character would lose it, or worse: vLLM's decode stream, begun with a prompt that ends
so, gives out the whole prompt once the character is whole. So the seam is put where the text of the
ids is whole, a few ids back if need be; those are generated again. They never reached the client,
so a greedy stream comes out the same, and a sampled one keeps its distribution. (A client that
asked for the ids has had them; see `TokenHistory.unseen`.)

Engines do not show special tokens, but their /detokenize does. Where the texts part, the id that
gives the text which was not shown is found by bisection, and left out of what is compared. Behind
the text that was delivered nothing shows that it was such a token: it is generated again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

MAX_REWIND_IDS = 8
"""A character has at most four bytes, so at most three ids are pending; more is another fault."""

CONTEXT_IDS = 4
"""Ids of the prompt decoded along: some tokenizers drop the blank before a text's first word."""

MAX_HIDDEN_IDS = 4
"""Different special tokens in one answer. There are some only with `ignore_eos` or where a model
writes control tokens; each takes about log2(ids) questions to find."""

_UNFINISHED = "\ufffd"

Detokenise = Callable[[Sequence[int]], Awaitable[str]]
"""Text of these ids. May raise what the replica's failing raises."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a stream is taken up again."""

    num_ids: int
    """Ids of the answer that stand."""
    owed_text: str
    """Text of these that the client has not had."""


async def find_seam(
    prompt_ids: Sequence[int],
    emitted_ids: Sequence[int],
    delivered: str,
    max_owed_chars: int,
    detokenise: Detokenise,
) -> ResumePoint | None:
    """The seam, or None when the ids do not give the text that went out.

    At most `max_owed_chars` were held back for stop strings. More text than that behind what was
    delivered is text that the engine did not show, such as a special token's: the seam is put
    before it.
    """
    if not emitted_ids:
        return ResumePoint(0, "") if not delivered else None
    context = list(prompt_ids[-CONTEXT_IDS:])
    before = await detokenise(context) if context else ""
    hidden: set[int] = set()

    async def text_of(ids: Sequence[int]) -> str:
        shown = [token for token in ids if token not in hidden]
        return await detokenise([*context, *shown]) if shown else before

    def agrees(text: str) -> bool:
        return _agrees(delivered, text, before)

    def is_within(text: str) -> bool:
        owed = owed_text(delivered, text, before)
        return owed is None or len(owed) <= max_owed_chars

    text = await text_of(emitted_ids)
    while not agrees(text):
        if len(hidden) == MAX_HIDDEN_IDS:
            return None
        hidden.add(emitted_ids[await _first_to_part(emitted_ids, text_of, agrees)])
        text = await text_of(emitted_ids)
    end = len(emitted_ids)
    if not is_within(text):
        end = await _first_to_part(emitted_ids, text_of, is_within)
    for num_ids in range(end, max(end - MAX_REWIND_IDS, 0) - 1, -1):
        if num_ids < len(emitted_ids):
            text = await text_of(emitted_ids[:num_ids])
        owed = owed_text(delivered, text, before)
        if owed is not None and len(owed) <= max_owed_chars:
            return ResumePoint(num_ids, owed)
    return None


async def _first_to_part(
    ids: Sequence[int], text_of: Detokenise, agrees: Callable[[str], bool]
) -> int:
    """The place of the id with which the text no longer agrees; call it only where all do not."""
    num_agreeing, num_parted = 0, len(ids)
    while num_parted - num_agreeing > 1:
        middle = (num_agreeing + num_parted) // 2
        if agrees(await text_of(ids[:middle])):
            num_agreeing = middle
        else:
            num_parted = middle
    return num_parted - 1


def _agrees(delivered: str, decoded: str, before: str) -> bool:
    """Whether one is the beginning of the other, but for a character that is not whole."""
    if not decoded.startswith(before):
        return False
    text = decoded[len(before) :].rstrip(_UNFINISHED)
    return text.startswith(delivered) or delivered.startswith(text)


def owed_text(delivered: str, decoded: str, before: str) -> str | None:
    """What of the decoded text behind `before` has not been delivered; None if there is no seam."""
    if not decoded.startswith(before) or decoded.endswith(_UNFINISHED):
        return None
    text = decoded[len(before) :]
    return text[len(delivered) :] if text.startswith(delivered) else None

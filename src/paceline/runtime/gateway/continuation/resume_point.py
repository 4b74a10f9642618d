"""`find_resume_point`: the token after which another replica continues, and the text not yet sent.

Ids run ahead of text: a character whose bytes are spread over several tokens is held back until it
is complete, and with stop strings the engine holds back more characters. A continuation after an
incomplete character would lose it; moreover, vLLM's decode stream, started with such a prompt,
sends the whole prompt once the character is complete. So the resume point is where the text of the
ids is complete, a few ids back if necessary, and those ids are generated again. They never reached
the client, so a greedy stream is the same, and a sampled one keeps its distribution. (A client that
requested the ids has received them; see `ContinuedRelay`.)

Engines do not show special tokens, but their /detokenize does. Where the two texts differ, the id
of the text that was not shown is found by bisection, and left out of the comparison. After the
delivered text, nothing distinguishes such a token from one that was held back: it is generated
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

MAX_REWIND_IDS = 8
"""A character has at most four bytes, so at most three ids are pending; 8 leaves a margin."""

CONTEXT_IDS = 4
"""Ids of the prompt that are decoded too: some tokenizers drop the blank before the first word."""

MAX_HIDDEN_IDS = 4
"""Different special tokens in one answer. They occur only with `ignore_eos` or where a model
writes control tokens; each takes about log2(ids) requests to find."""

_UNFINISHED = "\ufffd"

Detokenise = Callable[[Sequence[int]], Awaitable[str]]
"""Text of these ids. May raise what a failed request to the replica raises."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a stream is continued."""

    num_ids: int
    """Ids of the answer that are kept."""
    unsent_text: str
    """Text of these that the client has not received."""
    is_before_hidden_text: bool = False
    """The ids after it have text that the engine did not show, such as a special token's."""


async def find_resume_point(
    prompt_ids: Sequence[int],
    emitted_ids: Sequence[int],
    delivered: str,
    max_unsent_chars: int,
    detokenise: Detokenise,
) -> ResumePoint | None:
    """The resume point, or None when the ids do not decode to the text that was delivered.

    At most `max_unsent_chars` were held back for stop strings. More text than that after the
    delivered one is text that the engine did not show, such as a special token's: the resume point
    is before it.
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
        unsent = unsent_text(delivered, text, before)
        return unsent is None or len(unsent) <= max_unsent_chars

    text = await text_of(emitted_ids)
    while not agrees(text):
        if len(hidden) == MAX_HIDDEN_IDS:
            return None
        hidden.add(emitted_ids[await _first_to_part(emitted_ids, text_of, agrees)])
        text = await text_of(emitted_ids)
    end = len(emitted_ids)
    has_hidden_end = not is_within(text)
    if has_hidden_end:
        end = await _first_to_part(emitted_ids, text_of, is_within)
    for num_ids in range(end, max(end - MAX_REWIND_IDS, 0) - 1, -1):
        if num_ids < len(emitted_ids):
            text = await text_of(emitted_ids[:num_ids])
        unsent = unsent_text(delivered, text, before)
        if unsent is not None and len(unsent) <= max_unsent_chars:
            return ResumePoint(num_ids, unsent, has_hidden_end)
    return None


async def has_text_at_end(ids: Sequence[int], num_last: int, detokenise: Detokenise) -> bool:
    """Whether the last ids have text, apart from an incomplete character; at most two requests."""
    if not num_last:
        return False
    start = len(ids) - num_last
    context = list(ids[max(start - CONTEXT_IDS, 0) : start])
    before = await detokenise(context) if context else ""
    text = await detokenise([*context, *ids[start:]])
    return text.rstrip(_UNFINISHED) != before.rstrip(_UNFINISHED)


async def _first_to_part(
    ids: Sequence[int], text_of: Detokenise, agrees: Callable[[str], bool]
) -> int:
    """The index of the id at which the text stops agreeing; call it only if it does stop."""
    num_agreeing, num_parted = 0, len(ids)
    while num_parted - num_agreeing > 1:
        middle = (num_agreeing + num_parted) // 2
        if agrees(await text_of(ids[:middle])):
            num_agreeing = middle
        else:
            num_parted = middle
    return num_parted - 1


def _agrees(delivered: str, decoded: str, before: str) -> bool:
    """Whether one text begins with the other, apart from an incomplete character at the end."""
    if not decoded.startswith(before):
        return False
    text = decoded[len(before) :].rstrip(_UNFINISHED)
    return text.startswith(delivered) or delivered.startswith(text)


def unsent_text(delivered: str, decoded: str, before: str) -> str | None:
    """Decoded text after `before` that is not delivered; None where no stream can be continued."""
    if not decoded.startswith(before) or decoded.endswith(_UNFINISHED):
        return None
    text = decoded[len(before) :]
    return text[len(delivered) :] if text.startswith(delivered) else None

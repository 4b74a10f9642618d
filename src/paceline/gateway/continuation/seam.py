"""Behind which token does the other replica go on, and which text is still owed to the client?

Ids run ahead of text: a character whose bytes are spread over tokens is held back until it is
whole, and with stop strings the engine holds back some characters more. Going on behind an
unfinished character would lose it, or worse: vLLM's decode stream, begun with a prompt that ends
so, gives out the whole prompt once the character is whole. So the seam is put where the text of the
ids is whole, a few ids back if need be; those are generated again. They never reached the client,
so a greedy stream comes out the same, and a sampled one keeps its distribution. (A client that
asked for the ids has had them; see `TokenTrail.unseen`.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

MAX_REWIND_IDS = 8
"""A character has at most four bytes, so at most three ids are pending; more is another fault."""

CONTEXT_IDS = 4
"""Ids of the prompt decoded along: some tokenizers drop the blank before a text's first word."""

MAX_ANCHORS = 16
_BACK = (16, 8, 4, 2)
"""Chunks back from the end at which the text is compared anew."""

_UNFINISHED = "\ufffd"

Detokenise = Callable[[Sequence[int]], Awaitable[str]]
"""Text of these ids. May raise what the replica's failing raises."""


@dataclass(frozen=True, slots=True)
class Seam:
    """Where a stream is taken up again."""

    num_ids: int
    """Ids of the answer that stand."""
    owed_text: str
    """Text of these that the client has not had."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the answer: so many ids had brought so many characters."""

    num_ids: int
    num_chars: int


async def find_seam(
    prompt_ids: Sequence[int],
    emitted_ids: Sequence[int],
    delivered: str,
    anchors: Sequence[Anchor],
    max_owed_chars: int,
    detokenise: Detokenise,
) -> Seam | None:
    """The seam, or None when the ids do not give the text that went out.

    The whole text is compared first. Where that fails, the text since one of the last `anchors`
    (newest last): ids further back may have no text, as those of special tokens, which the engine
    leaves out and a detokeniser writes. At most `max_owed_chars` were held back for stop strings.
    More text than that behind what was delivered is text that the engine did not show: the seam is
    put before it.
    """
    if not emitted_ids:
        return Seam(0, "") if not delivered else None
    ids = [*prompt_ids, *emitted_ids]
    for anchor in (Anchor(0, 0), *(anchors[-back] for back in _BACK if back <= len(anchors))):
        first = len(prompt_ids) + anchor.num_ids
        context = ids[max(first - CONTEXT_IDS, 0) : first]
        before = await detokenise(context) if context else ""
        expected = delivered[anchor.num_chars :]
        last_tried = max(len(emitted_ids) - MAX_REWIND_IDS, anchor.num_ids)
        for num_ids in range(len(emitted_ids), last_tried - 1, -1):
            new = ids[first : len(prompt_ids) + num_ids]
            text = await detokenise([*context, *new]) if new else before
            owed = owed_text(expected, text, before)
            if owed is not None and len(owed) <= max_owed_chars:
                return Seam(num_ids, owed)
    return None


def owed_text(delivered: str, decoded: str, before: str) -> str | None:
    """What of the decoded text behind `before` has not been delivered; None if there is no seam."""
    if not decoded.startswith(before) or decoded.endswith(_UNFINISHED):
        return None
    text = decoded[len(before) :]
    return text[len(delivered) :] if text.startswith(delivered) else None

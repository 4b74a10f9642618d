"""Text of a wanted length, for traces that record lengths only.

The text is that of the held-out prompts and their answers: random tokens would flatter or cheat a
drafter. Lengths are in tokens of the served model, so the caller measures how many characters of
this text make one token.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from paceline.foundation.workloads.fields import WorkloadError
from paceline.foundation.workloads.heldout import read_heldout

_MIN_NAMED_BLOCK_TOKENS = 64
"""The piece of a shorter block does not begin with its name, which would be much of it."""


class FillerText:
    """Pieces of one long text. Equal keys give equal pieces: shared prefixes stay shared."""

    def __init__(self, text: str, chars_per_token: float) -> None:
        if not chars_per_token > 0:
            raise ValueError(f"chars_per_token is {chars_per_token}; it must be above 0")
        if not text:
            raise ValueError("the filler text is empty")
        self._text = text
        self._chars_per_token = chars_per_token

    def prompt(
        self, num_tokens: int, key: str, block_ids: Sequence[int] = (), block_tokens: int = 512
    ) -> str:
        """About `num_tokens` tokens: the recorded blocks first, then text that belongs to `key`.

        Each block has `block_tokens` tokens.
        """
        shared = block_ids[: num_tokens // block_tokens]
        is_named = block_tokens >= _MIN_NAMED_BLOCK_TOKENS
        parts = [self._piece(f"block {block}", block_tokens, is_named) for block in shared]
        rest = num_tokens - len(parts) * block_tokens
        parts.append(self._piece(key, rest))
        return "".join(parts)

    def _piece(self, key: str, num_tokens: int, is_named: bool = True) -> str:
        num_chars = round(num_tokens * self._chars_per_token)
        head = f"# {key}\n" if is_named else ""
        if num_chars <= len(head):
            return head[: max(num_chars, 1)] if num_tokens else ""
        start = zlib.crc32(key.encode()) % len(self._text)
        body_chars = num_chars - len(head)
        turns = -(-(start + body_chars) // len(self._text))
        return head + (self._text * turns)[start : start + body_chars]


def heldout_text() -> str:
    """All held-out prompts with their reference answers, as one text."""
    parts = []
    for item in read_heldout():
        if not isinstance(item, dict):
            raise WorkloadError("the built-in prompts must be JSON objects")
        question = item.get("prompt") or item["messages"][-1]["content"]
        parts.append(f"{question}\n{item.get('reference', '')}\n")
    return "\n".join(parts)


def probe_text(num_chars: int) -> str:
    """A stretch of the filler text by which the characters per token are measured."""
    text = heldout_text()
    return (text * (num_chars // len(text) + 1))[:num_chars]

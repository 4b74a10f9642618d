"""The tokens that may follow, as a pure function of all previous tokens.

Prompt and answer tokens count alike. A greedy answer that another server continues from its ids is
therefore identical, token by token, to an answer that was never interrupted:

    crc = CRC-32 of all ids so far, as little-endian 32-bit numbers
    x   = mix64(crc)

x selects the greedy token. Inside a multi-byte character it is the next part of that character.
Otherwise it is the end token with probability 1/`eos_every_tokens`, the start of a multi-byte
character with probability 1/16, and a word in all other cases. `sampling` chooses among this token
and up to seven others.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from paceline.testing.mock_vllm.model.vocabulary import (
    CHARACTER_STARTS,
    CONTINUATIONS,
    END,
    FIRST_SPECIAL,
    FIRST_WORD,
    NUM_WORDS,
    TOKEN_BYTES,
    VOCABULARY_SIZE,
    pack_ids,
    unfinished_character,
)

_MASK: Final = (1 << 64) - 1
# splitmix64's constants (Steele, Lea, Flood 2014)
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_ID_BYTES: Final = tuple(pack_ids([token]) for token in range(VOCABULARY_SIZE))


def _next_unfinished() -> dict[bytes, list[bytes]]:
    """Map each unfinished character (or none) to a table from token to the next unfinished one."""
    following = {}
    for start in (b"", *CONTINUATIONS):
        row = []
        for token in range(VOCABULARY_SIZE):
            joined = b"" if token >= FIRST_SPECIAL else start + TOKEN_BYTES[token]
            row.append(unfinished_character(list(joined)))
        following[start] = row
    return following


_NEXT_UNFINISHED: Final = _next_unfinished()


MAX_CANDIDATES: Final = 8


class TokenSource:
    """The tokens that may follow a prompt and the tokens appended to it."""

    __slots__ = ("_crc", "_eos_every_tokens", "_unfinished")

    def __init__(self, context_ids: Sequence[int], *, eos_every_tokens: int) -> None:
        """`context_ids`: the prompt and the tokens emitted so far.

        With `eos_every_tokens` 0, the end token is never a candidate.
        """
        self._crc = zlib.crc32(pack_ids(context_ids))
        self._eos_every_tokens = eos_every_tokens
        self._unfinished = unfinished_character(context_ids)

    def greedy(self, *, may_end: bool = True) -> int:
        """Return the best token; with `may_end=False` (below `min_tokens`) never the end token."""
        x = self._mixed()
        if self._unfinished:
            choices = CONTINUATIONS[self._unfinished]
            return choices[(x >> 8) % len(choices)]
        if may_end and self._eos_every_tokens and x % self._eos_every_tokens == 0:
            return END
        if (x >> 16) & 15 == 0:
            return CHARACTER_STARTS[(x >> 24) & 3]
        return FIRST_WORD + (x >> 24) % NUM_WORDS

    def candidates(self, *, may_end: bool = True) -> list[int]:
        """Return up to `MAX_CANDIDATES` different tokens, the best one first."""
        best = self.greedy(may_end=may_end)
        if self._unfinished:
            choices = CONTINUATIONS[self._unfinished]
            first = choices.index(best)
            return list((choices[first:] + choices[:first])[:MAX_CANDIDATES])
        word = (self._mixed() >> 24) % NUM_WORDS
        others = (FIRST_WORD + (word + rank) % NUM_WORDS for rank in range(1, MAX_CANDIDATES))
        return [best, *others]

    @property
    def hash(self) -> int:
        """A hash of all tokens so far."""
        return self._mixed()

    def append(self, token: int) -> None:
        """Add a token to the context. The only method that mutates."""
        self._crc = zlib.crc32(_ID_BYTES[token], self._crc)
        self._unfinished = _NEXT_UNFINISHED[self._unfinished][token]

    def _mixed(self) -> int:
        return mix64(self._crc)


def mix64(value: int) -> int:
    """Mix the bits of a number: splitmix64 without its last step."""
    x = (value * _GOLDEN) & _MASK
    x = ((x ^ (x >> 29)) * _MIX_1) & _MASK
    return x ^ (x >> 32)

"""Which token comes next?

A pure function of all tokens so far, prompt and answer alike, and of the seed when the request
samples. So an answer that is continued elsewhere from its ids is the same, token by token, as one
that was never broken:

    crc   = CRC-32 of all ids so far, as little-endian 32-bit numbers
    salt  = 0 when greedy, else a function of the seed
    x     = mix64(crc xor salt)

and x chooses: the rest of a character that has begun, or with probability 1/`eos_every_tokens`
the end, or with probability 1/16 the start of a multi-byte character, or a word.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from paceline.mock_vllm.model.vocabulary import (
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
_MIX_2: Final = 0x94D049BB133111EB
_ID_BYTES: Final = tuple(pack_ids([token]) for token in range(VOCABULARY_SIZE))


def _next_unfinished() -> dict[bytes, list[bytes]]:
    """For every start of a character, and none: token → the start that follows it."""
    following = {}
    for start in (b"", *CONTINUATIONS):
        row = []
        for token in range(VOCABULARY_SIZE):
            joined = b"" if token >= FIRST_SPECIAL else start + TOKEN_BYTES[token]
            row.append(unfinished_character(list(joined)))
        following[start] = row
    return following


_NEXT_UNFINISHED: Final = _next_unfinished()


class TokenSource:
    """The tokens after a prompt, one by one. Mutated by `next_token` only."""

    __slots__ = ("_crc", "_eos_every_tokens", "_salt", "_unfinished")

    def __init__(
        self, context_ids: Sequence[int], *, seed: int | None, eos_every_tokens: int
    ) -> None:
        """`context_ids` is the prompt and what was emitted before; `seed` is None when greedy.

        With `eos_every_tokens` 0 an answer never ends by itself.
        """
        self._crc = zlib.crc32(pack_ids(context_ids))
        self._salt = 0 if seed is None else ((2 * seed + 1) * _MIX_2) & _MASK
        self._eos_every_tokens = eos_every_tokens
        self._unfinished = unfinished_character(context_ids)

    def next_token(self, *, may_end: bool = True) -> int:
        """Without `may_end` the end is never chosen, as vLLM does below `min_tokens`."""
        x = ((self._crc ^ self._salt) * _GOLDEN) & _MASK
        x = ((x ^ (x >> 29)) * _MIX_1) & _MASK
        x ^= x >> 32
        if self._unfinished:
            choices = CONTINUATIONS[self._unfinished]
            token = choices[(x >> 8) % len(choices)]
        elif may_end and self._eos_every_tokens and x % self._eos_every_tokens == 0:
            token = END
        elif (x >> 16) & 15 == 0:
            token = CHARACTER_STARTS[(x >> 24) & 3]
        else:
            token = FIRST_WORD + (x >> 24) % NUM_WORDS
        self._crc = zlib.crc32(_ID_BYTES[token], self._crc)
        self._unfinished = _NEXT_UNFINISHED[self._unfinished][token]
        return token

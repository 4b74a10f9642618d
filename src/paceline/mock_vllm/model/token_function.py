"""Choose the next token as a pure function of all previous tokens and the seed.

Prompt and answer tokens count alike, and the seed counts only when the request samples. An answer
that another server continues from its ids is therefore identical, token by token, to an answer
that was never interrupted:

    crc   = CRC-32 of all ids so far, as little-endian 32-bit numbers
    salt  = 0 when greedy, else a function of the seed
    x     = mix64(crc xor salt)

x selects the next token. Inside a multi-byte character it is the next part of that character.
Otherwise it is the end token with probability 1/`eos_every_tokens`, the start of a multi-byte
character with probability 1/16, and a word in all other cases.
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


class TokenSource:
    """Yields the tokens after a prompt, one by one. Only `next_token` mutates it."""

    __slots__ = ("_crc", "_eos_every_tokens", "_salt", "_unfinished")

    def __init__(
        self, context_ids: Sequence[int], *, seed: int | None, eos_every_tokens: int
    ) -> None:
        """`context_ids`: the prompt and the tokens emitted so far. `seed`: None for greedy.

        With `eos_every_tokens` 0, the end token is never chosen.
        """
        self._crc = zlib.crc32(pack_ids(context_ids))
        self._salt = 0 if seed is None else ((2 * seed + 1) * _MIX_2) & _MASK
        self._eos_every_tokens = eos_every_tokens
        self._unfinished = unfinished_character(context_ids)

    def next_token(self, *, may_end: bool = True) -> int:
        """Return the next token; with `may_end=False` (below `min_tokens`) never the end token."""
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

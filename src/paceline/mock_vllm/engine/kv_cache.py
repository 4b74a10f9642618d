"""How full is the virtual KV cache, and what of a prompt does it hold already?

Blocks of 16 tokens, found again by a hash over all tokens up to their end and the request's
`cache_salt`, as vLLM's prefix cache. Blocks that nobody uses stay until they are needed, the
longest unused first. The hash is CRC-32 twice with different starts, 64 bits: enough against
chance, not against malice.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence

from paceline.mock_vllm.model.vocabulary import pack_ids
from paceline.mock_vllm.settings import BLOCK_TOKENS

_BLOCK_BYTES = 4 * BLOCK_TOKENS


class Holding:
    """The blocks of one running sequence."""

    __slots__ = ("hashes", "num_blocks", "num_cached_tokens")

    def __init__(self, hashes: list[int], num_blocks: int, num_cached_tokens: int) -> None:
        self.hashes = hashes
        """Of the prompt's full blocks."""
        self.num_blocks = num_blocks
        self.num_cached_tokens = num_cached_tokens
        """Tokens of the prompt that need not be read again."""


class KvCache:
    """Blocks in use, and blocks that are kept for the next prompt like it."""

    def __init__(self, num_blocks: int) -> None:
        self._num_blocks = num_blocks
        self._uses: Counter[int] = Counter()
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._num_unhashed = 0
        self.queried_tokens_total = 0
        self.hit_tokens_total = 0

    @property
    def used_fraction(self) -> float:
        return self._num_used / self._num_blocks

    @property
    def _num_used(self) -> int:
        return len(self._uses) + self._num_unhashed

    def begin(self, ids: Sequence[int], cache_salt: str) -> Holding | None:
        """Blocks for a prompt and its first token; None, and no change, when there is no room."""
        hashes = _hashes_of(ids, cache_salt)
        num_hit = 0
        # The last token is always computed, since its output is what is wanted.
        for block in hashes[: (len(ids) - 1) // BLOCK_TOKENS]:
            if block not in self._uses and block not in self._idle:
                break
            num_hit += 1
        num_blocks = len(ids) // BLOCK_TOKENS + 1
        num_new = sum(block not in self._uses for block in set(hashes))
        if self._num_used + num_new + num_blocks - len(hashes) > self._num_blocks:
            return None
        for block in hashes:
            self._uses[block] += 1
            self._idle.pop(block, None)
        self._num_unhashed += num_blocks - len(hashes)
        self._evict()
        self.queried_tokens_total += len(ids)
        self.hit_tokens_total += num_hit * BLOCK_TOKENS
        return Holding(hashes, num_blocks, num_hit * BLOCK_TOKENS)

    def grow(self, holding: Holding, num_tokens: int) -> bool:
        """Room for `num_tokens` in all; False, and no change, when there is none."""
        num_more = num_tokens // BLOCK_TOKENS + 1 - holding.num_blocks
        if num_more <= 0:
            return True
        if self._num_used + num_more > self._num_blocks:
            return False
        holding.num_blocks += num_more
        self._num_unhashed += num_more
        self._evict()
        return True

    def end(self, holding: Holding, ids: Sequence[int], cache_salt: str) -> None:
        """Give the blocks back; the full ones of `ids`, prompt and answer, are kept for others."""
        self._num_unhashed -= holding.num_blocks - len(holding.hashes)
        for block in holding.hashes:
            self._uses[block] -= 1
            if not self._uses[block]:
                del self._uses[block]
        # The end of a text is less likely to be wanted again than its beginning.
        for block in reversed(_hashes_of(ids, cache_salt)):
            if block not in self._uses:
                self._idle[block] = None
                self._idle.move_to_end(block)
        self._evict()

    def _evict(self) -> None:
        while self._num_used + len(self._idle) > self._num_blocks:
            self._idle.popitem(last=False)


def _hashes_of(ids: Sequence[int], cache_salt: str) -> list[int]:
    packed = memoryview(pack_ids(ids))
    low = zlib.crc32(cache_salt.encode())
    high = zlib.crc32(b"\0" + cache_salt.encode())
    hashes = []
    for end in range(_BLOCK_BYTES, len(packed) + 1, _BLOCK_BYTES):
        block = packed[end - _BLOCK_BYTES : end]
        low, high = zlib.crc32(block, low), zlib.crc32(bytes(block)[::-1], high)
        hashes.append(high << 32 | low)
    return hashes

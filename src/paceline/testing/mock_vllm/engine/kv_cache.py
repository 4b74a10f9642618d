"""A virtual KV cache with prefix caching: it counts blocks and stores no keys or values.

A block holds 16 tokens. As in vLLM's prefix cache, a full block is identified by a hash of the
request's `cache_salt` and all tokens up to the end of the block. Blocks that no sequence uses stay
cached and are evicted in least-recently-used order. The 64-bit hash is two CRC-32 values with
different start values: safe against accidental collisions, not against deliberate ones.
"""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence

from paceline.testing.mock_vllm.model.vocabulary import pack_ids
from paceline.testing.mock_vllm.settings import BLOCK_TOKENS

_BLOCK_BYTES = 4 * BLOCK_TOKENS


class SequenceBlocks:
    """The blocks of one running sequence."""

    __slots__ = ("hashes", "num_blocks", "num_cached_tokens")

    def __init__(self, hashes: list[int], num_blocks: int, num_cached_tokens: int) -> None:
        self.hashes = hashes
        """Hashes of the prompt's full blocks."""
        self.num_blocks = num_blocks
        self.num_cached_tokens = num_cached_tokens
        """Prompt tokens that were cached and need no prefill."""


class KvCache:
    """The blocks in use and the idle blocks that are still cached."""

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

    def allocate(self, ids: Sequence[int], cache_salt: str) -> SequenceBlocks | None:
        """Allocate blocks for a prompt and one token; returns None, unchanged, without room."""
        hashes = _hashes_of(ids, cache_salt)
        num_hit = 0
        # The last prompt token is never taken from the cache: its output is the first new token.
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
        return SequenceBlocks(hashes, num_blocks, num_hit * BLOCK_TOKENS)

    def grow(self, blocks: SequenceBlocks, num_tokens: int) -> bool:
        """Extend `blocks` to `num_tokens` tokens; returns False, unchanged, without room."""
        num_more = num_tokens // BLOCK_TOKENS + 1 - blocks.num_blocks
        if num_more <= 0:
            return True
        if self._num_used + num_more > self._num_blocks:
            return False
        blocks.num_blocks += num_more
        self._num_unhashed += num_more
        self._evict()
        return True

    def free(self, blocks: SequenceBlocks, ids: Sequence[int], cache_salt: str) -> None:
        """Free the blocks; the full blocks of `ids` (prompt and answer) stay cached."""
        self._num_unhashed -= blocks.num_blocks - len(blocks.hashes)
        for block in blocks.hashes:
            self._uses[block] -= 1
            if not self._uses[block]:
                del self._uses[block]
        # In reverse, so that the end of a text, which is reused less, is evicted first.
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

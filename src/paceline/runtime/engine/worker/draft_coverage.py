"""Track for which tokens the draft model's KV cache is valid, and find the gaps to backfill.

At draft length 0 the draft model need not run, and its share of the KV cache becomes stale. This
class keeps, per cache block, how many leading tokens are still valid, so that the missing ones can
be computed before drafting resumes: for live requests, and for blocks that the prefix cache hands
to later requests. It works on numbers only and does not use vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens [start, stop) of the request in `row`, which the draft model has to compute."""

    row: int
    start: int
    stop: int


class DraftCoverage:
    """The number of valid leading tokens per block; a block is valid until a token is missed in it.

    A slot is a position in the cache: block * block_size + offset. Negative slots are padding.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._num_valid = np.full(num_blocks, block_size, np.int32)
        self._has_missed = False

    def mark_missed(self, slots: Ints) -> None:
        """Note that the target computed the tokens in these slots and the draft model did not."""
        blocks, offsets = self._split(slots)
        np.minimum.at(self._num_valid, blocks, offsets)
        self._has_missed = True

    def mark_computed(self, slots: Ints) -> None:
        """Note that the draft model computed these slots. There must be no gap before them."""
        if self._has_missed:
            blocks, offsets = self._split(slots)
            np.maximum.at(self._num_valid, blocks, offsets + 1)

    def find_gaps(self, block_table: Ints, num_computed: Ints) -> list[Gap]:
        """Return what is missing of each request's first `num_computed` tokens, one gap per row.

        `block_table` has shape (num_rows, max_blocks), `num_computed` (num_rows,). A gap begins at
        the first missing token and extends to `num_computed`, because the draft model computed any
        later tokens without the missing ones. Fill gaps in order: what one gap fills is not missing
        in a later row that shares the block.
        """
        if not self._has_missed or not num_computed.size or not num_computed.max():
            return []
        num_blocks = -(-int(num_computed.max()) // self._block_size)
        firsts = np.arange(num_blocks) * self._block_size
        needed = np.clip(num_computed[:, None] - firsts, 0, self._block_size)
        blocks = np.where(needed > 0, block_table[:, :num_blocks], 0)
        is_short = (self._num_valid[blocks] < needed).any(axis=1)
        num_valid = self._num_valid.copy() if is_short.any() else self._num_valid
        gaps = []
        for row in np.flatnonzero(is_short).tolist():
            short = np.flatnonzero(num_valid[blocks[row]] < needed[row])
            if short.size:
                first = int(short[0])
                start = first * self._block_size + int(num_valid[blocks[row, first]])
                gaps.append(Gap(row, start, int(num_computed[row])))
                np.maximum.at(num_valid, blocks[row, first:], needed[row, first:])
        return gaps

    def _split(self, slots: Ints) -> tuple[Ints, Ints]:
        real = slots[slots >= 0]
        return real // self._block_size, real % self._block_size


def take_tokens(gaps: list[Gap], max_tokens: int) -> list[Gap]:
    """Return the first `max_tokens` tokens of the gaps, in order; the last gap may be cut short."""
    taken: list[Gap] = []
    room = max_tokens
    for gap in gaps:
        if room == 0:
            break
        stop = min(gap.stop, gap.start + room)
        taken.append(Gap(gap.row, gap.start, stop))
        room -= stop - gap.start
    return taken

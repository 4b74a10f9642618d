"""For which tokens does the draft model's KV cache hold what it should?

While nothing is drafted, the draft model need not run, and its share of the KV cache goes stale.
This keeps, per block of the cache, how many leading tokens are still good, so that what was missed
can be computed when drafting goes on: for live requests and for blocks that the prefix cache hands
to later ones alike. Knows numbers only, no vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens [start, stop) of the request in `row`, to be computed by the draft model."""

    row: int
    start: int
    stop: int


class DraftCoverage:
    """Good leading tokens per block. Every block counts as good until a token was missed in it.

    Slots are places in the cache: block * block_size + offset; negative ones are padding.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self._block_size = block_size
        self._good = np.full(num_blocks, block_size, np.int32)
        self._was_missed = False

    def miss(self, slots: Ints) -> None:
        """The target computed the tokens in these slots, the draft model did not."""
        blocks, offsets = self._split(slots)
        np.minimum.at(self._good, blocks, offsets)
        self._was_missed = True

    def compute(self, slots: Ints) -> None:
        """The draft model computed these slots, and there was no gap before them."""
        if self._was_missed:
            blocks, offsets = self._split(slots)
            np.maximum.at(self._good, blocks, offsets + 1)

    def gaps(self, block_table: Ints, num_computed: Ints) -> list[Gap]:
        """What is missing of each request's first `num_computed` tokens, at most one gap a row.

        `block_table` is (num_rows, max_blocks), `num_computed` is (num_rows,). A gap begins with
        the first missing token and ends with `num_computed`: what comes after a gap was computed
        without it, if at all. Gaps are to be filled in order: what one fills is not missing in a
        later row that shares the block.
        """
        if not self._was_missed or not num_computed.size or not num_computed.max():
            return []
        num_blocks = -(-int(num_computed.max()) // self._block_size)
        firsts = np.arange(num_blocks) * self._block_size
        needed = np.clip(num_computed[:, None] - firsts, 0, self._block_size)
        blocks = np.where(needed > 0, block_table[:, :num_blocks], 0)
        is_short = (self._good[blocks] < needed).any(axis=1)
        good = self._good.copy() if is_short.any() else self._good
        found = []
        for row in np.flatnonzero(is_short).tolist():
            short = np.flatnonzero(good[blocks[row]] < needed[row])
            if short.size:
                first = int(short[0])
                start = first * self._block_size + int(good[blocks[row, first]])
                found.append(Gap(row, start, int(num_computed[row])))
                np.maximum.at(good, blocks[row, first:], needed[row, first:])
        return found

    def _split(self, slots: Ints) -> tuple[Ints, Ints]:
        real = slots[slots >= 0]
        return real // self._block_size, real % self._block_size


def take_tokens(gaps: list[Gap], max_tokens: int) -> list[Gap]:
    """The first `max_tokens` tokens of the gaps, in order; the last gap may be cut short."""
    taken: list[Gap] = []
    room = max_tokens
    for gap in gaps:
        if room == 0:
            break
        stop = min(gap.stop, gap.start + room)
        taken.append(Gap(gap.row, gap.start, stop))
        room -= stop - gap.start
    return taken


def num_missing(gaps: list[Gap]) -> int:
    """Tokens in all the gaps."""
    return sum(gap.stop - gap.start for gap in gaps)

"""The gaps in the draft model's cache: worked examples, and a model that tracks every token."""

from __future__ import annotations

import random

import numpy as np
import pytest

from paceline.runtime.engine.worker.draft_coverage import DraftCoverage, Gap, take_tokens


def gaps_of(coverage: DraftCoverage, table: list[list[int]], computed: list[int]) -> list[Gap]:
    return coverage.find_gaps(np.array(table), np.array(computed))


def test_without_missed_tokens_there_is_no_gap() -> None:
    coverage = DraftCoverage(num_blocks=4, block_size=4)
    coverage.mark_computed(np.array([0, 1, 2]))
    assert gaps_of(coverage, [[0, 1]], [7]) == []


def test_a_gap_begins_at_the_first_missed_token() -> None:
    """Block 2 misses its offsets 1 and 2; the request has computed six tokens in blocks 2 and 3."""
    coverage = DraftCoverage(num_blocks=4, block_size=4)
    coverage.mark_missed(np.array([9, 10]))
    assert gaps_of(coverage, [[2, 3]], [6]) == [Gap(row=0, start=1, stop=6)]
    assert gaps_of(coverage, [[2, 3]], [1]) == []
    assert gaps_of(coverage, [[0, 3], [1, 2]], [8, 8]) == [Gap(row=1, start=5, stop=8)]


def test_backfilled_tokens_are_valid_for_all_requests_that_share_the_block() -> None:
    coverage = DraftCoverage(num_blocks=4, block_size=4)
    coverage.mark_missed(np.array([4, 5, 6, 7, 12]))
    coverage.mark_computed(np.array([4, 5, 6, 7]))
    assert gaps_of(coverage, [[1, 2]], [8]) == []
    assert gaps_of(coverage, [[3]], [1]) == [Gap(0, 0, 1)]


def test_padding_slots_are_ignored() -> None:
    coverage = DraftCoverage(num_blocks=2, block_size=4)
    coverage.mark_missed(np.array([-1, -1, 2]))
    assert gaps_of(coverage, [[1]], [4]) == []
    assert gaps_of(coverage, [[0]], [4]) == [Gap(0, 2, 4)]


def test_a_step_takes_at_most_the_allowed_tokens() -> None:
    gaps = [Gap(0, 3, 8), Gap(2, 0, 4), Gap(3, 0, 9)]
    assert take_tokens(gaps, 18) == gaps
    assert take_tokens(gaps, 7) == [Gap(0, 3, 8), Gap(2, 0, 2)]
    assert take_tokens(gaps, 5) == [Gap(0, 3, 8)]
    assert take_tokens([], 7) == []


def test_a_shared_prefix_is_missing_only_once() -> None:
    """Two requests share blocks 0 and 1; the gap of the first fills them for the second."""
    coverage = DraftCoverage(num_blocks=6, block_size=4)
    coverage.mark_missed(np.arange(24))
    assert gaps_of(coverage, [[0, 1, 2], [0, 1, 3]], [10, 9]) == [Gap(0, 0, 10), Gap(1, 8, 9)]
    assert gaps_of(coverage, [[0, 1, 2], [0, 1, 3]], [6, 12]) == [Gap(0, 0, 6), Gap(1, 6, 12)]


BLOCK, NUM_BLOCKS = 4, 40


class Cache:
    """A reference cache: the request and the token that each slot holds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.coverage = DraftCoverage(NUM_BLOCKS, BLOCK)
        self.written: dict[int, str] = {}
        self.free = list(range(NUM_BLOCKS))
        self.prefixes: list[tuple[str, list[int]]] = []
        self.num_shared = self.num_gap_tokens = 0

    def allocate(self, count: int) -> list[int]:
        """Allocate blocks for a request; evict unused prefixes, oldest first."""
        while len(self.free) < count:
            self.free += self.prefixes.pop(0)[1]
        return [self.free.pop(self.rng.randrange(len(self.free))) for _ in range(count)]

    def slots(self, blocks: list[int], start: int, stop: int) -> list[int]:
        return [blocks[p // BLOCK] * BLOCK + p % BLOCK for p in range(start, stop)]

    def write(self, content: str, blocks: list[int], start: int, stop: int) -> None:
        for position, slot in enumerate(self.slots(blocks, start, stop), start):
            self.written[slot] = f"{content}:{position}"

    def is_good(self, content: str, blocks: list[int], stop: int) -> bool:
        return all(
            self.written.get(slot) == f"{content}:{position}"
            for position, slot in enumerate(self.slots(blocks, 0, stop))
        )


@pytest.mark.parametrize("seed", range(12))
def test_no_request_drafts_after_a_missed_token(seed: int) -> None:
    """Requests with shared blocks arrive and end, drafting switches on and off, drafts fail.

    While drafting is on, after the backfill, every token before a request's position was written
    for that request's text, also in blocks that it shares.
    """
    rng = random.Random(seed)
    cache = Cache(rng)
    live: list[tuple[str, list[int], list[int], int]] = []  # content, shared, own blocks, computed
    for turn in range(300):
        if len(live) < 3:
            shared: tuple[str, list[int]] = (f"r{turn}", [])
            in_use = [s for _, s, _, _ in live if s]
            if cache.prefixes and rng.random() < 0.6:
                shared = cache.prefixes[-1]
                cache.prefixes = [p for p in cache.prefixes if p is not shared]
            elif in_use and rng.random() < 0.6:
                shared = next((c, s) for c, s, _, _ in live if s)
            cache.num_shared += bool(shared[1])
            content = shared[0]
            live.append((content, shared[1], cache.allocate(4), len(shared[1]) * BLOCK))
        on = rng.random() < 0.4
        rows = [(c, s + own, n) for c, s, own, n in live]
        widths = [min(rng.randint(1, 6), len(b) * BLOCK - n) for _, b, n in rows]
        slots = np.array(
            [x for (_, b, n), w in zip(rows, widths, strict=True) for x in cache.slots(b, n, n + w)]
        )
        if on:
            table = [b + [0] * (12 - len(b)) for _, b, _ in rows]
            for gap in gaps_of(cache.coverage, table, [n for *_, n in rows]):
                content, blocks, _ = rows[gap.row]
                assert cache.is_good(content, blocks, gap.start)
                cache.write(content, blocks, gap.start, gap.stop)
                cache.num_gap_tokens += gap.stop - gap.start
                cache.coverage.mark_computed(np.array(cache.slots(blocks, gap.start, gap.stop)))
            assert all(cache.is_good(c, b, n) for c, b, n in rows)
            cache.coverage.mark_computed(slots)
        else:
            cache.coverage.mark_missed(slots)
        after = []
        for (content, blocks, computed), (_, shared_blocks, own, _), width in zip(
            rows, live, widths, strict=True
        ):
            if on:
                cache.write(content, blocks, computed, computed + width)
            else:
                for slot in cache.slots(blocks, computed, computed + width):
                    cache.written.pop(slot, None)
            computed += rng.randint(1, width)  # the rest were rejected drafts
            if computed < len(blocks) * BLOCK and rng.random() > 0.05:
                after.append((content, shared_blocks, own, computed))
            elif shared_blocks:
                cache.free += own
                others = [s for c, s, _, _ in live if c == content]
                if len(others) == 1:
                    cache.prefixes.append((content, shared_blocks))
            else:
                num_full = min(computed // BLOCK, 2)
                cache.free += own[num_full:]
                if num_full:
                    cache.prefixes.append((content, own[:num_full]))
        live = after
    assert cache.num_shared > 10
    assert cache.num_gap_tokens > 300

"""The virtual KV cache: shared blocks and eviction."""

from __future__ import annotations

from paceline.testing.mock_vllm.engine.kv_cache import KvCache


def test_running_sequences_share_the_blocks_of_a_common_prompt() -> None:
    cache = KvCache(num_blocks=10)
    allocated = [cache.allocate([5] * 65, "") for _ in range(3)]
    assert None not in allocated
    assert cache.used_fraction == (4 + 3) / 10
    for blocks in allocated:
        assert blocks is not None
        cache.free(blocks, [5] * 65, "")
    assert cache.used_fraction == 0


def test_the_least_recently_used_blocks_are_evicted() -> None:
    cache = KvCache(num_blocks=8)
    for value in (1, 2, 3):  # two full blocks each, and one partly filled
        blocks = cache.allocate([value] * 32, "")
        assert blocks is not None
        cache.free(blocks, [value] * 32, "")
    assert cache.allocate([4] * 60, "") is not None  # takes 4 blocks, evicts 2 of 6
    hits_before = cache.hit_tokens_total
    assert cache.allocate([3] * 33, "") is not None
    assert cache.hit_tokens_total - hits_before == 32
    assert cache.allocate([1] * 33, "") is None

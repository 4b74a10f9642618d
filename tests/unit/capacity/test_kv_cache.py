"""The size of the KV cache on a CPU."""

from __future__ import annotations

import pytest

from paceline.foundation.capacity.kv_cache import cpu_kv_cache_bytes

GIB = 1024**3


@pytest.mark.parametrize(
    ("available_bytes", "weights_bytes", "num_replicas", "expected"),
    [
        (64 * GIB, None, 1, 4 * GIB),  # the absolute limit
        (8 * GIB, None, 1, 2 * GIB),  # a quarter of the memory
        (8 * GIB, None, 4, GIB // 2),  # shared by four engines
        (64 * GIB, 60 * 1024**2, 1, GIB),  # the limit of a small model
        (64 * GIB, GIB // 2, 1, 2 * GIB),  # four times the weights
        (2 * GIB, 60 * 1024**2, 1, GIB // 2),  # a quarter, below the limit of a small model
    ],
)
def test_the_cache_is_limited_by_memory_and_weights(
    available_bytes: int, weights_bytes: int | None, num_replicas: int, expected: int
) -> None:
    chosen = cpu_kv_cache_bytes(
        available_bytes, weights_bytes=weights_bytes, num_replicas=num_replicas
    )
    assert chosen == expected

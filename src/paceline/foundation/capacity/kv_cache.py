"""The size of the KV cache on a CPU, from free memory and the size of the weights."""

from __future__ import annotations

_FREE_MEMORY_FRACTION = 0.25
_MAX_BYTES = 4 * 1024**3
_MAX_PER_WEIGHT_BYTE = 4
_MIN_CEILING_BYTES = 1024**3
"""All four chosen empirically. A server shares its machine, vLLM fills the cache with zeros at
start, and vLLM's own rule (92 % of all memory) refuses to start where some of it is in use."""


def cpu_kv_cache_bytes(
    available_memory_bytes: int, *, weights_bytes: int | None, num_replicas: int = 1
) -> int:
    """Return the cache size of each of `num_replicas` engines that share the machine.

    An equal share of a quarter of the available memory, at most 4 GiB and at most 4 times the
    weights; for models under 256 MiB of weights the latter limit is 1 GiB. `weights_bytes` None is
    an unknown size.

    >>> cpu_kv_cache_bytes(8 * 1024**3, weights_bytes=None) // 1024**2
    2048
    """
    ceiling = _MAX_BYTES
    if weights_bytes is not None:
        ceiling = min(ceiling, max(_MIN_CEILING_BYTES, _MAX_PER_WEIGHT_BYTE * weights_bytes))
    share = int(available_memory_bytes * _FREE_MEMORY_FRACTION / num_replicas)
    return min(share, ceiling)

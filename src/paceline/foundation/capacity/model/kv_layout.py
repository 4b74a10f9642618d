"""The KV cache: bytes per token, the blocks that a request holds, and how many tokens fit.

As vLLM 0.32 lays it out (`v1/core/kv_cache_utils.py`). Layers that cache the same tokens share one
group and one block table. Where sliding-window layers stand beside full ones, layers are split into
groups of equal size that take blocks from one pool, so a block costs the bytes of one group and a
request holds blocks of every group. Layers of a draft model join those of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.capacity.model.shape import LatentAttention, ModelShape

KV_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}
"""Bytes of a cached value; "fp8" is vLLM's `--kv-cache-dtype fp8`."""

_EVEN_GROUPS_BELOW = 1.5
"""vLLM pads the smaller kind of layer up to the larger one below this ratio of their numbers."""


@dataclass(frozen=True, slots=True)
class KvLayers:
    """Layers of one model that cache alike."""

    num_layers: int
    bytes_per_token: int
    """Of one layer, on one GPU."""
    window: int | None
    """Tokens that stay cached; None for all."""


@dataclass(frozen=True, slots=True)
class _Group:
    window: int | None
    block_tokens: int


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How a model, or a target and its draft, fills the blocks of the cache."""

    groups: tuple[_Group, ...]
    bytes_per_block: int
    """On one GPU."""

    def blocks_per_request(self, context_tokens: int, tokens_in_flight: int = 1) -> int:
        """Blocks that a request with this context holds.

        `tokens_in_flight` are the tokens that one step may add: 1 while decoding, vLLM's
        max_num_batched_tokens (twice that with asynchronous scheduling) in its start-up log. A
        sliding window may begin and end inside a block, so it holds one block more.
        """
        blocks = 0
        for group in self.groups:
            if group.window is None:
                blocks += -(-context_tokens // group.block_tokens)
            else:
                held = min(group.window - 1 + tokens_in_flight, context_tokens)
                blocks += -(-held // group.block_tokens) + 1
        return blocks

    def num_blocks(self, available_bytes: int) -> int:
        """Blocks that fit."""
        return max(0, available_bytes) // self.bytes_per_block

    def max_requests(self, available_bytes: int, context_tokens: int) -> int:
        """Requests of this context that fit at once while decoding."""
        return self.num_blocks(available_bytes) // self.blocks_per_request(context_tokens)

    def logged_tokens(
        self, available_bytes: int, max_model_len: int, tokens_in_flight: int
    ) -> tuple[int, float]:
        """The "KV cache size" and "Maximum concurrency" that vLLM logs when it starts."""
        per_request = self.blocks_per_request(max_model_len, tokens_in_flight)
        concurrency = self.num_blocks(available_bytes) / per_request
        return int(concurrency * max_model_len), concurrency


def kv_layers(shape: ModelShape, kv_dtype: str, tensor_parallel: int = 1) -> list[KvLayers]:
    """Return the cached layers of a model on each of `tensor_parallel` GPUs.

    A GPU holds at least one KV head; the latent vector of MLA is on every GPU.
    """
    attention = shape.attention
    if isinstance(attention, LatentAttention):
        values = attention.kv_lora_rank + attention.qk_rope_head_dim
    else:
        values = 2 * max(1, attention.num_kv_heads // tensor_parallel) * attention.head_dim
    size = values * KV_DTYPE_BYTES[kv_dtype]
    counts: dict[int | None, int] = {}
    for window in shape.sliding_windows:
        counts[window] = counts.get(window, 0) + 1
    return [KvLayers(count, size, window) for window, count in counts.items()]


def kv_bytes_per_token(layers: Sequence[KvLayers]) -> int:
    """Bytes that one more token takes in all layers, on one GPU, while it is in every window."""
    return sum(layer.num_layers * layer.bytes_per_token for layer in layers)


def kv_layout(layers: Sequence[KvLayers], block_tokens: int) -> KvLayout:
    """Return the layout of all cached layers of an engine.

    >>> full, window = KvLayers(1, 100, None), KvLayers(5, 100, 512)
    >>> layout = kv_layout([full, window], 16)  # six groups of one layer each
    >>> len(layout.groups), layout.bytes_per_block
    (6, 1600)
    """
    windows = {layer.window for layer in layers}
    if len(windows) == 1:
        size = sum(layer.num_layers * layer.bytes_per_token for layer in layers)
        return KvLayout((_Group(windows.pop(), block_tokens),), size * block_tokens)
    largest = max(layer.bytes_per_token for layer in layers)
    kinds: dict[_Group, int] = {}
    for layer in layers:
        # Layers with smaller pages get more tokens per block, or padding where that is uneven.
        ratio = largest // layer.bytes_per_token if largest % layer.bytes_per_token == 0 else 1
        kind = _Group(layer.window, block_tokens * ratio)
        kinds[kind] = kinds.get(kind, 0) + layer.num_layers
    fewest, most = min(kinds.values()), max(kinds.values())
    group_layers = most if most < fewest * _EVEN_GROUPS_BELOW else fewest
    groups = [kind for kind, count in kinds.items() for _ in range(-(-count // group_layers))]
    return KvLayout(tuple(groups), group_layers * largest * block_tokens)

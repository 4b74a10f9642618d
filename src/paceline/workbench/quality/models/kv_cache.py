"""Round keys and values to FP8, as a server with an FP8 KV cache stores them.

vLLM divides by a scale, 1 unless the model folder has others, and stores e4m3 numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_FP8_MAX = 448.0
_NAME = "paceline_fp8_kv_cache"


def round_kv_cache(model: Any, scale: float = 1.0) -> None:
    """Make the model attend to keys and values in FP8, in place."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
    ) -> Any:
        stored = (_round(one, scale) for one in (key, value))
        return sdpa_attention_forward(module, query, *stored, mask, **options)

    name = f"{_NAME}_{scale:g}"
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, sdpa_mask)
    model.set_attn_implementation(name)


def _round(values: Tensor, scale: float) -> Tensor:
    stored = (values.float() / scale).clamp(-_FP8_MAX, _FP8_MAX).to(torch.float8_e4m3fn)
    return (stored.float() * scale).to(values.dtype)

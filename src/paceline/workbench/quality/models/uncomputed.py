"""Find what a folder asks of a server that is not computed in process.

A setting or a tensor that is ignored here and used by a server would make a sound model look
faulty, or a faulty one sound. So all that is not known is reported, and the verdict is `undecided`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

_PARTS = frozenset(
    ("weight", "weight_packed", "weight_scale", "weight_global_scale", "weight_shape", "bias")
)
"""Of a quantized matrix; `weight_g_idx`, `input_scale` and zero points are not among them."""
_CACHE_SCALES = frozenset(("k_scale", "v_scale", "q_scale", "kv_scale", "prob_scale"))
"""Tensors by which vLLM divides what it stores in the KV cache or computes in attention."""
_STRATEGIES = {
    "w4a16": ("group", "channel"),
    "w8a8-int8": ("channel",),
    "fp8-channel": ("channel",),
    "nvfp4": ("tensor_group",),
}
"""Which weights share a scale, by format."""
_INPUTS = {"num_bits": 8, "strategy": "token", "dynamic": True}
_WITH_INPUTS = ("w8a8-int8", "fp8-channel")
"""Formats whose inputs are rounded while serving; those of the others have 16 bits."""
_COLUMNS_AS_STORED = (None, False, "static", "weight")
"""Values of `actorder` with which groups are consecutive columns."""


def find_setting(quantization: Mapping[str, Any], name: str) -> str:
    """The first setting of compressed-tensors that is not computed, in words; "" without one.

    `quantization` is the `quantization_config`, `name` a format of `_STRATEGIES`.
    """
    groups = [one for one in (quantization.get("config_groups") or {}).values() if one]
    if quantization.get("kv_cache_scheme"):
        return "a quantized KV cache (kv_cache_scheme)"
    if len({(one.get("weights") or {}).get("group_size") for one in groups}) > 1:
        return "several group sizes"
    return next((found for one in groups if (found := _of_group(one, name))), "")


def find_tensor(names: Iterable[str], matrices: Set[str]) -> str:
    """The first stored tensor that is not computed; "" without one.

    `matrices` are the quantized modules.
    """
    for name in names:
        owner, _, part = name.rpartition(".")
        if part in _CACHE_SCALES or (owner in matrices and part not in _PARTS):
            return name
    return ""


def _of_group(group: Mapping[str, Any], name: str) -> str:
    weights = group.get("weights") or {}
    if not weights.get("symmetric", True):
        return "zero points"
    if weights.get("actorder") not in _COLUMNS_AS_STORED:
        return f"groups of reordered columns (actorder {weights['actorder']})"
    if weights.get("strategy") not in _STRATEGIES[name]:
        return f"scales of weights by {weights.get('strategy')}"
    if group.get("output_activations"):
        return "quantized outputs (output_activations)"
    inputs = group.get("input_activations")
    if name not in _WITH_INPUTS:
        return "quantized inputs (input_activations)" if inputs else ""
    if not inputs:
        return "inputs of 16 bits (no input_activations)"
    if any(inputs.get(key) != value for key, value in _INPUTS.items()):
        return "inputs other than 8 bits with a dynamic scale per token (input_activations)"
    return "" if inputs.get("symmetric", True) else "zero points of inputs (input_activations)"

"""Read which number format a model is stored in from the `quantization_config` of its config.json.

The names are the rows of `number_formats.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.compatibility.quantization_config import (
    UnreadableModelFile,
    find_quantization,
    modelopt_algorithm,
)

UNQUANTIZED = "none"
UNKNOWN = "unknown"

_BY_ALGORITHM = {
    "FP8": "fp8-tensor",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8-channel",
    "FP8_PB_WO": "fp8-block",
    "FP8_BLOCK_SCALES": "fp8-block",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "MXFP8": "mxfp8",
}
"""Of ModelOpt."""
_BY_METHOD = {"awq": "awq", "awq_marlin": "awq", "gptq": "gptq", "gptq_marlin": "gptq"}


def stored_format(config: Mapping[str, Any], folder: Path | None = None) -> str:
    """Return the format of the weights: `none`, a name of the table, or `unknown`.

    `config` is a parsed config.json, `folder` where it stands; other files there may have the
    format. A model whose layers have different formats is `unknown`.
    """
    try:
        stored = find_quantization(config, folder)
    except UnreadableModelFile:
        return UNKNOWN
    if stored is None:
        return UNQUANTIZED
    try:
        return _format_of(stored.settings)
    except (AttributeError, TypeError):
        return UNKNOWN  # a value of another type than expected


def _format_of(found: Mapping[str, Any]) -> str:
    method = found.get("quant_method")
    if method in _BY_METHOD:
        bits = found.get("bits", found.get("w_bit", 4))
        return _BY_METHOD[method] if bits == 4 else "w8a16" if bits == 8 else UNKNOWN
    if method == "fp8":
        return "fp8-block" if found.get("weight_block_size") else "fp8-tensor"
    if method in ("mxfp4", "mxfp8"):
        return str(method)
    if str(method).startswith("modelopt"):
        return _BY_ALGORITHM.get(modelopt_algorithm(found), UNKNOWN)
    if method == "compressed-tensors":
        return _compressed_tensors(found)
    return UNKNOWN


def _compressed_tensors(found: Mapping[str, Any]) -> str:
    groups = found.get("config_groups")
    if not isinstance(groups, Mapping):
        return UNKNOWN
    formats = {_format_of_group(group) for group in groups.values() if isinstance(group, Mapping)}
    return formats.pop() if len(formats) == 1 else UNKNOWN


def _format_of_group(group: Mapping[str, Any]) -> str:
    weights = group.get("weights") or {}
    inputs = group.get("input_activations") or {}
    bits, kind, strategy = weights.get("num_bits"), weights.get("type"), weights.get("strategy")
    input_bits = inputs.get("num_bits", 16)
    if kind == "float" and bits == 8:
        by_strategy = {"channel": "fp8-channel", "tensor": "fp8-tensor", "block": "fp8-block"}
        return by_strategy.get(str(strategy), "mxfp8" if strategy == "group" else UNKNOWN)
    if kind == "float" and bits == 4:
        return "nvfp4" if strategy == "tensor_group" else "mxfp4"
    if kind == "int":
        by_bits: dict[tuple[Any, Any], str] = {
            (4, 16): "w4a16",
            (4, 8): "w4a8-int8",
            (8, 16): "w8a16",
            (8, 8): "w8a8-int8",
        }
        return by_bits.get((bits, input_bits), UNKNOWN)
    return UNKNOWN

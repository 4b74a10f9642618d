"""Read the `quantization_config` of a `config.json` into a `WeightFormat`.

Refused is what vLLM cannot load, and what has bytes that are not known.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paceline.foundation.capacity.model.weight_format import (
    DTYPE_BYTES,
    ROUTERS,
    Scales,
    WeightFormat,
)
from paceline.foundation.compatibility.quantization_config import modelopt_algorithm

_KNOWN = "awq, gptq, fp8, modelopt, compressed-tensors"
_NVFP4_GROUP, _MX_GROUP = 16, 32


def read_weight_format(config: Mapping[str, Any], dtype: str) -> WeightFormat:
    """Return the format that the `quantization_config` of a `config.json` describes.

    Raises ValueError for a method or a scheme whose bytes are not known, and for settings that no
    tool writes.
    """
    quantization = config.get("quantization_config") or config.get("compression_config")
    if not quantization:
        return WeightFormat(dtype, dtype)
    try:
        return _read(quantization, dtype)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        # Files of others have values of any type where a number, a list or an object is meant.
        raise ValueError(
            f"quantization_config in config.json has a value of another type than expected: {error}"
        ) from None


def _read(quantization: Mapping[str, Any], dtype: str) -> WeightFormat:
    method = str(quantization.get("quant_method"))
    ignored = (
        quantization.get("modules_to_not_convert")
        or quantization.get("ignored_layers")
        or quantization.get("ignore")
        or ()
    )
    kept = (*ROUTERS, *(str(name) for name in ignored))
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin"):
        return _integers(method.partition("_")[0], quantization, dtype, kept)
    if method == "fp8":
        block = quantization.get("weight_block_size")
        if block and block[0] != block[1]:
            raise ValueError(f"weight_block_size in config.json is {block}; only squares are known")
        scales: Scales = "block" if block else "tensor"
        edge = block[0] if block else 0
        return WeightFormat("fp8", dtype, 8, scales, edge, 4, ignored=kept)
    if method.startswith("modelopt"):
        wildcards = (f"re:{fnmatch.translate(str(one))}" for one in ignored if "*" in str(one))
        exact = (str(one) for one in ignored if "*" not in str(one))
        return _modelopt(modelopt_algorithm(quantization), dtype, (*ROUTERS, *wildcards, *exact))
    if method == "compressed-tensors":
        return _compressed_tensors(quantization, dtype, kept)
    raise ValueError(f"quant_method in config.json is {method!r}; known: {_KNOWN}")


def _integers(
    method: str, quantization: Mapping[str, Any], dtype: str, ignored: tuple[str, ...]
) -> WeightFormat:
    """AWQ and GPTQ, with GPTQ's exceptions by module (`dynamic`)."""
    bits = quantization.get("bits", quantization.get("w_bit", 4))
    group = quantization.get("group_size", quantization.get("q_group_size", 128))
    base = WeightFormat(
        method,
        dtype,
        bits,
        *_groups(group),
        scale_bytes=2,
        has_zero_points=True,
        index_bytes_per_input=4 if quantization.get("desc_act") else 0,
        ignored=ignored,
    )
    dynamic = quantization.get("dynamic") or {}
    if not isinstance(dynamic, Mapping):
        raise ValueError(
            f"dynamic in quantization_config is a {type(dynamic).__name__}; it must be an object"
        )
    overrides = list[tuple[str, WeightFormat]]()
    for pattern, changes in dynamic.items():
        if pattern.startswith("-:"):
            plain = WeightFormat(dtype, dtype)
            overrides.append((f"re:{pattern.removeprefix('-:')}", plain))
            continue
        changed = replace(
            base,
            bits=changes.get("bits", bits),
            index_bytes_per_input=4 if changes.get("desc_act", quantization.get("desc_act")) else 0,
        )
        scales, size = _groups(changes.get("group_size", group))
        changed = replace(changed, scales=scales, group_size=size)
        overrides.append((f"re:{pattern.removeprefix('+:')}", changed))
    return replace(base, overrides=tuple(overrides))


def _groups(group: int | None) -> tuple[Scales, int]:
    return ("channel", 0) if group in (-1, None) else ("group", int(group))


def _modelopt(algorithm: str, dtype: str, ignored: tuple[str, ...]) -> WeightFormat:
    if algorithm == "FP8":
        return WeightFormat("fp8", dtype, 8, "tensor", 0, 4, ignored=ignored)
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return WeightFormat("fp8", dtype, 8, "channel", 0, 4, ignored=ignored)
    if algorithm in ("FP8_PB_WO", "FP8_BLOCK_SCALES"):
        return WeightFormat("fp8", dtype, 8, "block", 128, 4, ignored=ignored)
    if algorithm in ("NVFP4", "W4A16_NVFP4"):
        return _nvfp4(dtype, ignored, computes_in_4_bits=algorithm == "NVFP4")
    if algorithm == "MXFP8":
        return WeightFormat("mxfp8", dtype, 8, "group", _MX_GROUP, 1, ignored=ignored)
    raise ValueError(
        f"quant_algo of ModelOpt is {algorithm or 'missing'}; known: FP8, "
        "FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, MXFP8"
    )


def _nvfp4(dtype: str, ignored: tuple[str, ...], *, computes_in_4_bits: bool) -> WeightFormat:
    """4 bits, an FP8 scale for every 16 weights, and one float32 for the matrix."""
    return WeightFormat(
        "nvfp4" if computes_in_4_bits else "nvfp4a16",
        dtype,
        4,
        "group",
        _NVFP4_GROUP,
        scale_bytes=1,
        tensor_scale_bytes=8 if computes_in_4_bits else 4,
        ignored=ignored,
    )


def _compressed_tensors(
    quantization: Mapping[str, Any], dtype: str, ignored: tuple[str, ...]
) -> WeightFormat:
    """One group for all linear layers, and groups for modules that are named."""
    groups = quantization.get("config_groups") or {}
    base: WeightFormat | None = None
    overrides = list[tuple[str, WeightFormat]]()
    for name, group in groups.items():
        if not group.get("weights"):
            continue  # of activations or the cache alone
        found = _group_format(name, group, quantization, dtype)
        for target in group.get("targets") or ["Linear"]:
            if target in ("Linear", "LinearBase"):
                base = found
            else:
                overrides.append((str(target), found))
    if base is None and not overrides:
        raise ValueError(
            "config_groups in config.json have no weights; known: groups with num_bits and strategy"
        )
    if base is None:
        # Only the named modules are quantized.
        first = overrides[0][1]
        base = replace(first, bits=None)
    return replace(base, ignored=ignored, overrides=tuple(overrides))


def _group_format(
    name: str, group: Mapping[str, Any], quantization: Mapping[str, Any], dtype: str
) -> WeightFormat:
    weights = group["weights"]
    bits, strategy, kind = weights.get("num_bits"), weights.get("strategy"), weights.get("type")
    size = weights.get("group_size") or 0
    inputs = group.get("input_activations")
    if kind == "float" and bits == 4 and strategy == "tensor_group":
        return _nvfp4(dtype, (), computes_in_4_bits=bool(inputs))
    if kind == "float" and strategy == "group" and size == _MX_GROUP and bits in (4, 8):
        return WeightFormat(f"mxfp{bits}", dtype, bits, "group", size, 1)
    if kind == "float" and bits == 8 and strategy == "block":
        block = weights.get("block_structure") or [128, 128]
        return WeightFormat("fp8", dtype, 8, "block", int(block[0]), 4)
    if strategy not in ("group", "channel", "tensor") or bits not in (4, 8):
        raise ValueError(
            f"weights in config_groups.{name} have num_bits {bits!r}, type {kind!r} and strategy "
            f"{strategy!r}; known: 4 or 8 bits by group, channel or tensor, FP8 by block, NVFP4, "
            "MXFP4 and MXFP8"
        )
    is_packed = "pack" in (group.get("format") or quantization.get("format") or "")
    label = "fp8" if kind == "float" else f"w{bits}a{8 if inputs else 16}"
    return WeightFormat(
        label,
        dtype,
        bits,
        strategy,
        size,
        scale_bytes=DTYPE_BYTES[dtype] if is_packed else 4,
        has_zero_points=not weights.get("symmetric", True),
    )

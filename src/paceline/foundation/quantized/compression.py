"""Store quantized matrices in the layout of compressed-tensors.

The library itself takes twelve seconds of processor time to import. Its layout is simple, and the
tests compare what is stored here with what the library reads and writes:

- `pack-quantized`: eight 4-bit values, each plus 8, in an int32, the first in the lowest bits.
- `int-quantized`, `float-quantized`: the values as int8 or FP8.
- `nvfp4-pack-quantized`: two FP4 values in a byte, the first in the lower half; the FP8 scales of
  blocks of 16 are multiplied by a global scale, which spreads them over the range of FP8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from paceline.foundation.quantized.architecture import FUSED, IGNORED, LINEARS
from paceline.foundation.quantized.rounding import choose_scales, shared_maximum
from paceline.foundation.quantized.schemes import Scheme

_STORED = {
    "w4a16": "pack-quantized",
    "w8a8-int8": "int-quantized",
    "fp8-channel": "float-quantized",
    "nvfp4": "nvfp4-pack-quantized",
}
_FP8 = torch.float8_e4m3fn
_FP8_MAX = 448.0
_FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_FP4_BLOCK = 16
_NIBBLES = 8
"""4-bit values in an int32."""


def quantization_config(scheme: Scheme, group_size: int | None) -> dict[str, Any]:
    """Return the `quantization_config` for config.json."""
    weights: dict[str, Any] = {
        "num_bits": scheme.bits,
        "type": "float" if scheme.format in ("fp8-channel", "nvfp4") else "int",
        "symmetric": True,
        "dynamic": False,
        "strategy": "channel",
    }
    inputs: dict[str, Any] | None = None
    if scheme.has_groups:
        weights |= {"strategy": "group", "group_size": group_size}
    elif scheme.format == "nvfp4":
        weights |= {
            "strategy": "tensor_group",
            "group_size": _FP4_BLOCK,
            "scale_dtype": "torch.float8_e4m3fn",
            "zp_dtype": "torch.float8_e4m3fn",
        }
    else:
        inputs = {**weights, "strategy": "token", "dynamic": True}
    return {
        "quant_method": "compressed-tensors",
        "format": _STORED[scheme.format],
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": weights,
                "input_activations": inputs,
                "output_activations": None,
                "format": _STORED[scheme.format],
            }
        },
        "ignore": list(IGNORED),
        "kv_cache_scheme": None,
    }


def scale_dtype(scheme: Scheme, model_dtype: str) -> torch.dtype:
    """Return the format in which vLLM keeps the scales, so that loading rounds nothing.

    The scales of 4-bit integers have the model's 16-bit format, all others float32.
    """
    if not scheme.has_groups:
        return torch.float32
    return torch.float16 if model_dtype == "float16" else torch.bfloat16


def compress_layer(
    matrices: Mapping[str, torch.Tensor],
    scheme: Scheme,
    group_size: int | None,
    model_dtype: str,
    scales: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Return the stored tensors of one decoder layer's matrices, by name within the layer.

    `matrices` has a tensor (outputs, inputs) for each of `LINEARS`. `scales` are those that the
    matrices were fitted to; without them they are chosen here.
    """
    dtype = scale_dtype(scheme, model_dtype)
    largest = _shared_maxima(matrices) if scheme.format == "nvfp4" else {}
    stored: dict[str, torch.Tensor] = {}
    for name in LINEARS:
        weight = matrices[name].float()
        if scheme.format == "nvfp4":
            local = _compress_fp4(weight, largest[name])
        else:
            given = None if scales is None else scales[name]
            chosen = choose_scales(weight, scheme, group_size, dtype) if given is None else given
            local = _compress(weight, chosen, scheme, group_size, dtype)
        stored |= {f"{name}.{key}": tensor.contiguous() for key, tensor in local.items()}
    return stored


def decompress_layer(
    stored: Mapping[str, torch.Tensor], scheme: Scheme, group_size: int | None
) -> dict[str, torch.Tensor]:
    """Return the matrices as a server computes with them, in float32, from their stored tensors."""
    return {
        name: decompress_matrix(
            {
                key.removeprefix(f"{name}."): tensor
                for key, tensor in stored.items()
                if key.startswith(f"{name}.")
            },
            scheme,
        )
        for name in LINEARS
    }


def decompress_matrix(local: Mapping[str, torch.Tensor], scheme: Scheme) -> torch.Tensor:
    """Return a matrix as a server computes with it, in float32.

    `local` has its stored tensors by the last part of their names, such as `weight_scale`.
    """
    scales = local["weight_scale"].float()
    if scheme.format == "nvfp4":
        values = _unpack_fp4(local["weight_packed"])
        scales = scales / local["weight_global_scale"]
    elif scheme.has_groups:
        values = _unpack_int4(local["weight_packed"])
    else:
        values = local["weight"].float()
    groups = values.reshape(len(values), scales.shape[1], -1)
    return (groups * scales.unsqueeze(-1)).reshape(values.shape)


def round_matrix(
    weight: torch.Tensor, scheme: Scheme, group_size: int | None, model_dtype: str
) -> torch.Tensor:
    """Return a matrix rounded to the nearest values of the scheme, in float32."""
    if scheme.format == "nvfp4":
        local = _compress_fp4(weight.float(), shared_maximum([weight]))
    else:
        dtype = scale_dtype(scheme, model_dtype)
        scales = choose_scales(weight, scheme, group_size, dtype)
        local = _compress(weight.float(), scales, scheme, group_size, dtype)
    return decompress_matrix(local, scheme)


def _compress(
    weight: torch.Tensor,
    scales: torch.Tensor,
    scheme: Scheme,
    group_size: int | None,
    dtype: torch.dtype,
) -> dict[str, torch.Tensor]:
    outputs, inputs = weight.shape
    steps = weight.reshape(outputs, scales.shape[1], -1) / scales.float().unsqueeze(-1)
    steps = steps.reshape(outputs, inputs)
    if scheme.format == "fp8-channel":
        values = steps.clamp(-_FP8_MAX, _FP8_MAX).to(_FP8)
        return {"weight": values, "weight_scale": scales.to(dtype)}
    limit = 2 ** (scheme.bits - 1)
    whole = steps.round().clamp(-limit, limit - 1)
    if scheme.bits == 8:
        return {"weight": whole.to(torch.int8), "weight_scale": scales.to(dtype)}
    return {
        "weight_packed": _pack_int4(whole),
        "weight_scale": scales.to(dtype),
        "weight_shape": torch.tensor([outputs, inputs]),
    }


def _pack_int4(whole: torch.Tensor) -> torch.Tensor:
    """Pack values (outputs, inputs) from -8 to 7 into int32 (outputs, inputs / 8)."""
    nibbles = (whole + 8).to(torch.int32).reshape(len(whole), -1, _NIBBLES)
    return (nibbles << (4 * torch.arange(_NIBBLES, dtype=torch.int32))).sum(-1, dtype=torch.int32)


def _unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    nibbles = (packed.unsqueeze(-1) >> (4 * torch.arange(_NIBBLES, dtype=torch.int32))) & 15
    return nibbles.reshape(len(packed), -1).float() - 8


def _compress_fp4(weight: torch.Tensor, largest: torch.Tensor) -> dict[str, torch.Tensor]:
    """Round to FP4. `largest` is the maximum of all matrices that share the global scale."""
    outputs, inputs = weight.shape
    global_scale = torch.where(
        largest > 0, _FP8_MAX * _FP4_VALUES[-1] / largest, torch.ones_like(largest)
    )
    blocks = weight.reshape(outputs, -1, _FP4_BLOCK)
    scales = (blocks.abs().amax(-1) / _FP4_VALUES[-1] * global_scale).clamp(max=_FP8_MAX).to(_FP8)
    smallest = torch.finfo(_FP8).tiny
    scales = torch.where(scales.float() > 0, scales.float(), smallest).to(_FP8)
    steps = (blocks / (scales.float() / global_scale).unsqueeze(-1)).reshape(outputs, inputs)
    table = torch.tensor(_FP4_VALUES)
    middles = (table[1:] + table[:-1]) / 2
    codes = torch.bucketize(steps.abs(), middles)
    codes += 8 * ((steps < 0) & (codes > 0))
    pairs = codes.to(torch.uint8).reshape(outputs, -1, 2)
    return {
        "weight_packed": pairs[..., 0] | (pairs[..., 1] << 4),
        "weight_scale": scales,
        "weight_global_scale": global_scale,
    }


def _unpack_fp4(packed: torch.Tensor) -> torch.Tensor:
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).reshape(len(packed), -1).long()
    signs = 1 - 2 * (codes >> 3)
    return torch.tensor(_FP4_VALUES)[codes & 7] * signs


def _shared_maxima(matrices: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the largest weight for each matrix; those that vLLM joins share it."""
    alone = [(name,) for name in LINEARS if not any(name in group for group in FUSED)]
    return {
        name: shared_maximum([matrices[one] for one in group])
        for group in (*FUSED, *alone)
        for name in group
    }

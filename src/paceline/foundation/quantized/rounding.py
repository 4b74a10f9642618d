"""Round matrices to a grid with one scale per group of inputs, or per output.

A symmetric grid of b bits has the values scale * {-2^(b-1), ..., 2^(b-1) - 1}; FP8 (e4m3) has its
own values up to 448. A scale that clips the largest weights may have a smaller total error: in each
4-bit group, the fraction of the maximum with the smallest squared error is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from paceline.foundation.quantized.schemes import Scheme

_FP8_MAX = 448.0
_INT8_MAX = 127.0
_LEAST_LARGEST = 1e-12
"""A token of zeros has a scale, too."""
_CLIP_FRACTIONS = tuple(1 - step / 20 for step in range(7))
"""From the whole maximum down to 0.7 of it; below that no group of normal weights gains."""


def choose_scales(
    weight: torch.Tensor,
    scheme: Scheme,
    group_size: int | None,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """Return the scales (outputs, groups) of a matrix (outputs, inputs) in float32; none is 0.

    Without groups there is one per output. A group of zeros has scale 1. `dtype` is the format in
    which the scales are stored; they are rounded to it.
    """
    groups = _grouped(weight.float(), group_size)
    largest = groups.abs().amax(dim=-1)
    if scheme.format == "fp8-channel":
        return _rounded(largest / _FP8_MAX, dtype)
    limit = float(2 ** (scheme.bits - 1) - 1)
    if scheme.bits == 8:
        return _rounded(largest / limit, dtype)
    best_scales = _rounded(largest / limit, dtype)
    best_error = torch.full_like(largest, torch.inf)
    for fraction in _CLIP_FRACTIONS:
        scales = _rounded(largest * fraction / limit, dtype)
        error = (_round(groups, scales, scheme.bits) - groups).square().sum(dim=-1)
        is_better = error < best_error
        best_scales = torch.where(is_better, scales, best_scales)
        best_error = torch.where(is_better, error, best_error)
    return best_scales


def fake_quantize(
    weight: torch.Tensor, scales: torch.Tensor, scheme: Scheme, group_size: int | None
) -> torch.Tensor:
    """Return the matrix (outputs, inputs) as the kernel will see it, in float32."""
    groups = _grouped(weight.float(), group_size)
    if scheme.format == "fp8-channel":
        shared = scales.float().unsqueeze(-1)
        rounded = (groups / shared).clamp(-_FP8_MAX, _FP8_MAX).to(torch.float8_e4m3fn).float()
        return (rounded * shared).reshape(weight.shape)
    return _round(groups, scales.float(), scheme.bits).reshape(weight.shape)


def round_tokens(values: torch.Tensor) -> torch.Tensor:
    """Return values (..., channels) as INT8 with one scale per token has them, in float32.

    This is what compressed-tensors' dynamic INT8 does while serving.
    """
    values = values.float()
    scales = values.abs().amax(dim=-1, keepdim=True).clamp(min=_LEAST_LARGEST) / _INT8_MAX
    return (values / scales).round().clamp(-_INT8_MAX - 1, _INT8_MAX) * scales


def shared_maximum(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the largest absolute weight of several matrices, as a tensor of one element."""
    return torch.stack([weight.float().abs().amax() for weight in weights]).amax().reshape(1)


def _grouped(weight: torch.Tensor, group_size: int | None) -> torch.Tensor:
    """Return (outputs, groups, inputs of a group)."""
    outputs, inputs = weight.shape
    return weight.reshape(outputs, -1, group_size or inputs)


def _round(groups: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    shared = scales.unsqueeze(-1)
    limit = 2 ** (bits - 1)
    return (groups / shared).round().clamp(-limit, limit - 1) * shared


def _rounded(scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the scales as they are read back from `dtype`, with 1 in place of 0."""
    stored = scales.to(dtype).float()
    return torch.where(stored > 0, stored, torch.ones_like(stored))

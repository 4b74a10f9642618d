"""AWQ: scale input channels by how active they are, so that rounding hurts the active ones least.

For the matrices W that read the same input x, a scale s per input channel is multiplied into W and
divided out of the module before them, which leaves the layer's function unchanged. Rounding then
acts on W·diag(s). With the mean activity a of each channel, s = a^r for the exponent r in [0, 1]
that gives the smallest squared error of the outputs on calibration inputs; r = 0 is plain rounding,
so the search never chooses worse than that on them.

Reference: Lin et al., AWQ: Activation-aware Weight Quantization (arXiv 2306.00978).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from paceline.quantize.own.architecture import READERS
from paceline.quantize.own.rounding import choose_scales, fake_quantize
from paceline.quantize.schemes import Scheme

_NUM_EXPONENTS = 20
_SMALLEST_SCALE = 1e-4
"""Bounds the ratio of two scales, so that dividing by them overflows nothing."""


class InputSample:
    """The mean activity of each input channel, and a sample of rows. Not thread-safe."""

    def __init__(self, max_rows: int, num_calls: int, seed: int) -> None:
        """Keep about `max_rows` rows, the same number of each of `num_calls` calls."""
        self._rows_per_call = max(1, max_rows // max(1, num_calls))
        self._generator = torch.Generator().manual_seed(seed)
        self._sum: torch.Tensor | None = None
        self._num_rows = 0
        self._kept: list[torch.Tensor] = []

    def add(self, inputs: torch.Tensor) -> None:
        """Add inputs (tokens, channels)."""
        rows = inputs.float()
        total = rows.abs().sum(dim=0)
        self._sum = total if self._sum is None else self._sum + total
        self._num_rows += len(rows)
        chosen = torch.randperm(len(rows), generator=self._generator)[: self._rows_per_call]
        self._kept.append(rows[chosen])

    @property
    def activity(self) -> torch.Tensor:
        """Mean absolute input (channels)."""
        assert self._sum is not None, "no inputs were added"
        return self._sum / self._num_rows

    @property
    def rows(self) -> torch.Tensor:
        """Sampled inputs (rows, channels)."""
        return torch.cat(self._kept)


@torch.no_grad()
def scale_layer(
    layer: Any,
    samples: Mapping[str, InputSample],
    scheme: Scheme,
    group_size: int | None,
    dtype: torch.dtype,
    *,
    scales_values: bool,
) -> None:
    """Scale the matrices of a decoder layer and the modules before them, in place.

    `samples` has the inputs of the first matrix of each reading group. `scales_values` says whether
    o_proj may be scaled through v_proj.
    """
    for before, readers in READERS:
        if before == "self_attn.v_proj" and not scales_values:
            continue
        weights = [layer.get_submodule(name).weight for name in readers]
        scales = search_scales(
            [weight.data for weight in weights], samples[readers[0]], scheme, group_size, dtype
        )
        for weight in weights:
            weight.data.mul_(scales.to(weight.dtype))
        module = layer.get_submodule(before)
        divided = scales.to(module.weight.dtype)
        module.weight.data.div_(divided if module.weight.dim() == 1 else divided.unsqueeze(1))
        if getattr(module, "bias", None) is not None:
            module.bias.data.div_(divided)


def search_scales(
    weights: list[torch.Tensor],
    sample: InputSample,
    scheme: Scheme,
    group_size: int | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the scales (input channels) with the smallest output error; 1 where none is better."""
    rows, activity = sample.rows, sample.activity
    wanted = [rows @ weight.float().T for weight in weights]
    best, best_error = torch.ones_like(activity), torch.inf
    for step in range(_NUM_EXPONENTS):
        scales = _scales_of(activity, step / _NUM_EXPONENTS)
        error = 0.0
        for weight, outputs in zip(weights, wanted, strict=True):
            scaled = weight.float() * scales
            grid = choose_scales(scaled, scheme, group_size, dtype)
            rounded = fake_quantize(scaled, grid, scheme, group_size) / scales
            error += (rows @ rounded.T - outputs).square().mean().item()
        if error < best_error:
            best, best_error = scales, error
    return best


def _scales_of(activity: torch.Tensor, exponent: float) -> torch.Tensor:
    """Return activity^exponent with geometric mean 1; a channel that is never active has 1."""
    is_active = activity > 0
    if exponent == 0 or not bool(is_active.any()):
        return torch.ones_like(activity)
    logs = torch.where(is_active, activity, torch.ones_like(activity)).log() * exponent
    logs = logs - logs[is_active].mean()
    scales = logs.exp().clamp(_SMALLEST_SCALE, 1 / _SMALLEST_SCALE)
    return torch.where(is_active, scales, torch.ones_like(scales))

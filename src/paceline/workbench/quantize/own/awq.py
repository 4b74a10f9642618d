"""AWQ: scale input channels by how active they are, so that rounding hurts the active ones least.

With the mean activity a of each channel, the scales are s = a^r for the exponent r in [0, 1] that
gives the smallest squared error of the outputs on calibration inputs; r = 0 is plain rounding, so
the search never chooses worse than that on them.

Reference: Lin et al., AWQ: Activation-aware Weight Quantization (arXiv 2306.00978).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import Scheme
from paceline.workbench.quantize.own.channel_scales import InputSample, least_error, normalized

_NUM_EXPONENTS = 20


def search_scales(
    weights: Sequence[torch.Tensor],
    sample: InputSample,
    scheme: Scheme,
    group_size: int | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return the scales (input channels) with the smallest output error; 1 where none is better."""
    rows, activity = sample.rows, sample.activity
    wanted = [rows @ weight.float().T for weight in weights]

    def error_of(scales: torch.Tensor) -> float:
        error = 0.0
        for weight, outputs in zip(weights, wanted, strict=True):
            scaled = weight.float() * scales
            grid = choose_scales(scaled, scheme, group_size, dtype)
            rounded = fake_quantize(scaled, grid, scheme, group_size) / scales
            error += (rows @ rounded.T - outputs).square().mean().item()
        return error

    exponents = (step / _NUM_EXPONENTS for step in range(_NUM_EXPONENTS))
    return least_error((normalized(activity**one, activity > 0) for one in exponents), error_of)

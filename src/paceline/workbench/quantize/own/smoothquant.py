"""SmoothQuant: divide the outliers of activations away, so that INT8 has steps left for the rest.

A token's inputs share one scale, which its largest channel sets; in chat models some channels are a
hundred times as large as the others. With the largest input a and the largest weight w of each
channel, the scales s = a^r / w^(1 - r) move a part of that into the weights, which have a scale per
output. The paper takes one strength r for a model; here each group of matrices has the r with the
smallest error of its outputs on calibration inputs, and none where none is better.

The error is that of a token relative to its outputs, added over the matrices that share its inputs:
the few tokens with huge inputs, such as the first, and the matrix with the largest outputs, would
decide otherwise.

Reference: Xiao et al., SmoothQuant (arXiv 2211.10438).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize, round_tokens
from paceline.foundation.quantized.schemes import Scheme
from paceline.workbench.quantize.own.channel_scales import InputSample, least_error, normalized

_STRENGTHS = tuple(step / 20 for step in range(4, 20))
_TINY = 1e-5
"""Least size of a weight in the ratio, and of outputs, so that zeros give finite numbers."""


def search_scales(
    weights: Sequence[torch.Tensor], sample: InputSample, scheme: Scheme
) -> torch.Tensor:
    """Return the scales (input channels) with the smallest output error; 1 where none is better."""
    rows = sample.rows
    matrices = [one.float() for one in weights]
    wanted = [rows @ one.T for one in matrices]
    sizes = [outputs.square().sum(dim=-1).clamp(min=_TINY**2) for outputs in wanted]

    def error_of(scales: torch.Tensor) -> float:
        rounded_rows, error = round_tokens(rows / scales), 0.0
        for matrix, outputs, size in zip(matrices, wanted, sizes, strict=True):
            scaled = matrix * scales
            rounded = fake_quantize(scaled, choose_scales(scaled, scheme, None), scheme, None)
            errors = (rounded_rows @ rounded.T - outputs).square().sum(dim=-1)
            error += float((errors / size).sum())
        return error

    return least_error(_candidates(sample.largest, torch.cat(matrices)), error_of)


def _candidates(largest: torch.Tensor, weight: torch.Tensor) -> Iterator[torch.Tensor]:
    yield torch.ones_like(largest)
    columns = weight.abs().amax(dim=0).clamp(min=_TINY)
    for strength in _STRENGTHS:
        yield normalized(largest**strength / columns ** (1 - strength), largest > 0)

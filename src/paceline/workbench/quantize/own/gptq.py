"""GPTQ: round the inputs of a matrix one after another, and correct the rest for each error.

With the second moments H = Xᵀ X of the inputs, rounding input j by an error e adds
e · (H⁻¹)_{j,k} / (H⁻¹)_{j,j} to the best values of the inputs k that are still to be rounded. The
scales of a group are chosen when its first input is reached, from the corrected weights.

Reference: Frantar et al., GPTQ: Accurate Post-Training Quantization (arXiv 2210.17323).
"""

from __future__ import annotations

import torch

from paceline.foundation.quantized.rounding import choose_scales, fake_quantize
from paceline.foundation.quantized.schemes import Scheme

_DAMPING = 0.01
"""Added to the diagonal, as a fraction of its mean: the value of the paper."""
_BLOCK = 128
"""Inputs whose corrections to later blocks are applied at once; it changes speed only."""


class SecondMoments:
    """H = Xᵀ X / rows of the inputs of a matrix, (inputs, inputs). Not thread-safe."""

    def __init__(self) -> None:
        self._sum: torch.Tensor | None = None
        self._num_rows = 0

    def add(self, inputs: torch.Tensor) -> None:
        """Add inputs (tokens, inputs of the matrix)."""
        rows = inputs.float()
        if self._sum is None:
            self._sum = torch.zeros(rows.shape[1], rows.shape[1])
        self._sum.addmm_(rows.T, rows)
        self._num_rows += len(rows)

    @property
    def mean(self) -> torch.Tensor:
        """The moments per row."""
        assert self._sum is not None, "no inputs were added"
        return self._sum / self._num_rows


@torch.no_grad()
def round_with_correction(
    weight: torch.Tensor,
    moments: torch.Tensor,
    scheme: Scheme,
    group_size: int,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rounded matrix (outputs, inputs) and its scales (outputs, groups), in float32.

    `moments` are (inputs, inputs). An input that was never active is rounded as it is.
    """
    work = weight.float().clone()
    inverse = _inverse_root(moments)
    outputs, inputs = work.shape
    rounded = torch.empty_like(work)
    scales = torch.empty(outputs, inputs // group_size)
    block_size = max(_BLOCK // group_size, 1) * group_size
    for start in range(0, inputs, block_size):
        end = min(start + block_size, inputs)
        errors = torch.empty(outputs, end - start)
        for column in range(start, end):
            group = column // group_size
            if column % group_size == 0:
                corrected = work[:, column : column + group_size]
                scales[:, group] = choose_scales(corrected, scheme, group_size, dtype)[:, 0]
            value = work[:, column : column + 1]
            rounded[:, column : column + 1] = fake_quantize(
                value, scales[:, group : group + 1], scheme, 1
            )
            error = (value[:, 0] - rounded[:, column]) / inverse[column, column]
            errors[:, column - start] = error
            work[:, column:end] -= torch.outer(error, inverse[column, column:end])
        work[:, end:] -= errors @ inverse[start:end, end:]
    return rounded, scales


def _inverse_root(moments: torch.Tensor) -> torch.Tensor:
    """Return the upper Cholesky factor of H⁻¹, damped; its rows give the corrections."""
    damped = moments.clone()
    diagonal = damped.diagonal()
    diagonal[diagonal == 0] = 1.0
    diagonal += _DAMPING * diagonal.mean()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    root: torch.Tensor = torch.linalg.cholesky(inverse, upper=True)
    return root

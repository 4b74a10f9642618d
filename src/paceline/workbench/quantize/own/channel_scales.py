"""Scale the input channels of a layer's matrices, which leaves what the layer computes unchanged.

For the matrices W that read the same input x, a scale s per input channel is multiplied into W and
divided out of the module before them: W·diag(s) reads x/s. Rounding then acts on other numbers, and
a search chooses the s whose rounding changes the outputs least on calibration inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from paceline.foundation.quantized.architecture import READERS

_SMALLEST_SCALE = 1e-4
"""Bounds the ratio of two scales, so that dividing by them overflows nothing."""


class InputSample:
    """What is known of each input channel, and a sample of rows. Not thread-safe."""

    def __init__(self, max_rows: int, num_calls: int, seed: int) -> None:
        """Keep about `max_rows` rows, the same number of each of `num_calls` calls."""
        self._rows_per_call = max(1, max_rows // max(1, num_calls))
        self._generator = torch.Generator().manual_seed(seed)
        self._sum: torch.Tensor | None = None
        self._largest: torch.Tensor | None = None
        self._num_rows = 0
        self._kept: list[torch.Tensor] = []

    def add(self, inputs: torch.Tensor) -> None:
        """Add inputs (tokens, channels)."""
        rows = inputs.float()
        sizes = rows.abs()
        total, largest = sizes.sum(dim=0), sizes.amax(dim=0)
        self._sum = total if self._sum is None else self._sum + total
        self._largest = largest if self._largest is None else self._largest.maximum(largest)
        self._num_rows += len(rows)
        chosen = torch.randperm(len(rows), generator=self._generator)[: self._rows_per_call]
        self._kept.append(rows[chosen])

    @property
    def activity(self) -> torch.Tensor:
        """Mean absolute input (channels)."""
        assert self._sum is not None, "no inputs were added"
        return self._sum / self._num_rows

    @property
    def largest(self) -> torch.Tensor:
        """Largest absolute input (channels)."""
        assert self._largest is not None, "no inputs were added"
        return self._largest

    @property
    def rows(self) -> torch.Tensor:
        """Sampled inputs (rows, channels)."""
        return torch.cat(self._kept)


Search = Callable[[Sequence[torch.Tensor], InputSample], torch.Tensor]
"""Returns scales (input channels) for matrices (outputs, channels) that read the sampled inputs."""


@torch.no_grad()
def scale_layer(
    layer: Any,
    samples: Mapping[str, InputSample],
    search: Search,
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
        scales = search([weight.data for weight in weights], samples[readers[0]])
        module = layer.get_submodule(before)
        if module.weight.dim() == 1:
            scales = _exactly_divided(module.weight.data, scales)
        for weight in weights:
            weight.data.mul_(scales.to(weight.dtype))
        divided = scales.to(module.weight.dtype)
        module.weight.data.div_(divided if module.weight.dim() == 1 else divided.unsqueeze(1))
        if getattr(module, "bias", None) is not None:
            module.bias.data.div_(divided)


def _exactly_divided(norm: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return scales near these by which the norm divided is what bfloat16 can store, as can the
    wider formats; 1 where it would be 0.

    Rounded, it would be off by up to 0.4 %, in the same direction for every token.
    """
    stored = (norm / scales).bfloat16().to(norm.dtype)
    return torch.where(stored != 0, norm / stored, torch.ones_like(scales))


def least_error(
    candidates: Iterable[torch.Tensor], error_of: Callable[[torch.Tensor], float]
) -> torch.Tensor:
    """Return the candidate with the smallest error, the first of equal ones."""
    return min(((error_of(scales), index, scales) for index, scales in enumerate(candidates)))[2]


def normalized(scales: torch.Tensor, is_active: torch.Tensor) -> torch.Tensor:
    """Return the scales with geometric mean 1; a channel that is never active has 1."""
    logs = torch.where(is_active, scales, torch.ones_like(scales)).log()
    if bool(is_active.any()):
        logs = logs - logs[is_active].mean()
    bounded = logs.exp().clamp(_SMALLEST_SCALE, 1 / _SMALLEST_SCALE)
    return torch.where(is_active, bounded, torch.ones_like(bounded))

"""Round a model in memory to a number format, as plain rounding to nearest would store it.

This is the yardstick of a candidate: what its format costs without any fault and without any skill.
Calibrated methods cost less.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paceline.foundation.quantized.compression import round_matrix
from paceline.foundation.quantized.rounding import round_tokens
from paceline.workbench.quality.models.formats import Format

_FP8_MAX = 448.0


@torch.no_grad()
def round_model(model: Any, form: Format) -> None:
    """Round the model's matrices and the inputs of its products, in place."""
    if form.scheme is None:
        return
    dtype = str(model.dtype).removeprefix("torch.")
    for name in form.matrices:
        weight = model.get_submodule(name).weight
        weight.copy_(round_matrix(weight, form.scheme, form.group_size, dtype))
    round_inputs(model, form)


def round_inputs(model: Any, form: Format) -> None:
    """Round the inputs of quantized matrices, for formats that do so while serving."""
    if form.name not in _INPUTS:
        return
    for name in form.matrices:
        model.get_submodule(name).register_forward_pre_hook(_INPUTS[form.name])


def _round_int8(_module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (round_tokens(inputs[0]).to(inputs[0].dtype),)


def _round_fp8(_module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One scale per token, as compressed-tensors' dynamic FP8 (e4m3)."""
    values = inputs[0].float()
    scales = values.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / _FP8_MAX
    rounded = (values / scales).clamp(-_FP8_MAX, _FP8_MAX).to(torch.float8_e4m3fn).float()
    return (rounded.mul(scales).to(inputs[0].dtype),)


_INPUTS = {"w8a8-int8": _round_int8, "fp8-channel": _round_fp8}
"""By format; the others compute with 16-bit inputs."""

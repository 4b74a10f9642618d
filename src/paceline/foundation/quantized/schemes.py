"""The schemes of `paceline quantize`: what each stores, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SchemeName = Literal["awq", "gptq", "w8a8", "smoothquant", "fp8", "nvfp4"]
GROUP_SIZES = (128, 64, 32)
"""Inputs that share a scale of 4-bit weights, in order of preference: 128 is what kernels are tuned
for, smaller groups cost memory."""
INPUT_MULTIPLE = 32
"""vLLM's CPU kernel for 4-bit weights requires inputs and outputs in multiples of 32."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One scheme."""

    name: SchemeName
    format: str
    """Row of the table of number formats."""
    preset: str
    """Preset of compressed-tensors that describes the stored tensors."""
    bits: int
    has_groups: bool
    """Whether `group_size` inputs share a scale; otherwise all inputs of an output do."""
    needs_calibration: bool
    summary: str


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("awq", "w4a16", "W4A16", 4, True, True, "4-bit weights, scaled by activations"),
        Scheme("gptq", "w4a16", "W4A16", 4, True, True, "4-bit weights, errors compensated"),
        Scheme(
            "w8a8",
            "w8a8-int8",
            "W8A8",
            8,
            False,
            False,
            "INT8 weights per channel, INT8 activations per token",
        ),
        Scheme(
            "smoothquant",
            "w8a8-int8",
            "W8A8",
            8,
            False,
            True,
            "INT8 as w8a8, fitted to the activations",
        ),
        Scheme(
            "fp8",
            "fp8-channel",
            "FP8_DYNAMIC",
            8,
            False,
            False,
            "FP8 weights per channel, FP8 activations per token",
        ),
        Scheme("nvfp4", "nvfp4", "NVFP4A16", 4, False, False, "FP4 weights in blocks of 16"),
    )
}


def choose_group_size(scheme: Scheme, input_sizes: set[int], asked: int | None) -> int | None:
    """Return the group size for layers with these numbers of inputs; None for schemes without.

    Raises ValueError if `asked` does not fit, or if no group size does.
    """
    if not scheme.has_groups:
        if asked is not None:
            raise ValueError(
                f"--group-size is {asked}, but {scheme.name} has no groups; leave it out, or use "
                "--scheme awq or gptq"
            )
        return None
    fitting = [size for size in GROUP_SIZES if all(inputs % size == 0 for inputs in input_sizes)]
    if asked is not None:
        if asked in fitting:
            return asked
        allowed = ", ".join(map(str, fitting)) or "none"
        raise ValueError(
            f"--group-size is {asked}; for this model, whose layers have "
            f"{', '.join(map(str, sorted(input_sizes)))} inputs, it may be: {allowed}"
        )
    if not fitting:
        raise ValueError(
            f"the layers have {', '.join(map(str, sorted(input_sizes)))} inputs; 4-bit weights "
            f"need multiples of {GROUP_SIZES[-1]}. Use --scheme w8a8"
        )
    return fitting[0]

"""Judge the kernels that compute the linear layers of a loaded model.

A format that vLLM cannot run on a machine may load without an error and leave the weights as they
are. Kernels are named by vLLM's classes, perhaps with a variant in brackets; a layer without a
kernel of its own counts under the class of its method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_UNQUANTIZED = "Unquantized"


def why_without_effect(
    kernels: Mapping[str, int], quantization: str | None, *, is_stored: bool
) -> str:
    """Return that no layer is quantized although vLLM was to, and what to do about it; else "".

    `quantization` is vLLM's name of the method in use. `is_stored`: the checkpoint's configuration
    names it.
    """
    if quantization is None or not all(name.startswith(_UNQUANTIZED) for name in kernels):
        return ""
    finding = (
        f"the quantization method is {quantization}, but all {sum(kernels.values())} linear layers "
        f"are unquantized ({render_kernels(kernels)})"
    )
    if is_stored:
        return f"{finding}: the checkpoint's quantization_config applies to no weights"
    return (
        f"{finding}: it has no effect on this model. Remove --quantization, or serve a folder made "
        "by `paceline quantize`"
    )


def why_unexpected(kernels: Mapping[str, int], expected: Sequence[str]) -> str:
    """Return how the kernels differ from the table; "" if one of `expected` is among them."""
    if not expected or any(name.partition(" ")[0] in expected for name in kernels):
        return ""
    return (
        f"the linear layers run {render_kernels(kernels)}, expected {' or '.join(expected)}; the "
        "speed may differ from what was measured for this format"
    )


def render_kernels(kernels: Mapping[str, int]) -> str:
    """Return the kernels in words.

    >>> render_kernels({"CPUInt8ScaledMMLinearKernel (oneDNN)": 24})
    'CPUInt8ScaledMMLinearKernel (oneDNN) in 24 layers'
    """
    return ", ".join(
        f"{name} in {count} layer{'' if count == 1 else 's'}"
        for name, count in sorted(kernels.items())
    )

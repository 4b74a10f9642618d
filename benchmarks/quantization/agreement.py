"""Whether the gate of number formats says what vLLM does: the kernel, or the refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.quantization.variants import Variant
from paceline.foundation.compatibility.kernels import (
    render_kernels,
    why_unexpected,
    why_without_effect,
)
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.format_gate import choose_formats
from paceline.runtime.engine.launch.hardware import Hardware

_ONE_BYTE = ("uint8", "int8", "float8_e4m3fn", "float8_e5m2")
"""Formats of the tensors in which vLLM keeps an FP8 cache."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What `paceline serve` decides before it loads a folder."""

    refusal: str = ""
    """Empty if the folder is served."""
    expected_kernels: tuple[str, ...] = ()
    kernel_dtypes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def ask_gate(variant: Variant, folder: Path, hardware: Hardware) -> GateVerdict:
    """The verdict of `paceline serve` on the folder. Reads its config.json."""
    try:
        formats = choose_formats(
            hardware,
            target=str(folder),
            draft=None,
            dtype=variant.dtype,
            kv_cache_dtype=variant.kv_cache_dtype,
            vllm_args=(),
        )
    except ModelUnfit as error:
        return GateVerdict(refusal=str(error))
    return GateVerdict(
        expected_kernels=formats.expected_kernels,
        kernel_dtypes=formats.kernel_dtypes,
        reasons=formats.reasons,
    )


def find_disagreement(
    variant: Variant,
    gate: GateVerdict,
    outcome: Mapping[str, Any],
    quantize_refusal: str | None = None,
) -> str:
    """How vLLM or `paceline quantize` contradicts the gate, in words; "" if they do not.

    `outcome` is what a started engine reports (`engine_child._start`), or `{"error": …}`.
    `quantize_refusal` is what the command says before it makes the folder, "" if it makes it, None
    if that is not known.
    """
    error = outcome.get("error")
    if quantize_refusal is not None and bool(quantize_refusal) != bool(gate.refusal):
        return (
            f"`paceline quantize` says: {quantize_refusal or 'made'}; "
            f"`paceline serve` says: {gate.refusal or 'served'}"
        )
    if gate.refusal:
        return "" if error else f"the gate refuses it, and vLLM runs it: {gate.refusal}"
    if error:
        return f"the gate admits it, and vLLM does not run it: {error}"
    if outcome["modified_by"]:
        return f"vLLM is not stock: {', '.join(outcome['modified_by'])} is loaded"
    kernels, kv_format = outcome["kernels"], outcome["kv_cache_dtype"]
    if (kv_format in _ONE_BYTE) != (variant.kv_cache_dtype != "auto"):
        return f"the KV cache is kept as {kv_format}, asked for was {variant.kv_cache_dtype}"
    if variant.scheme is None:
        is_plain = all(name.startswith("Unquantized") for name in kernels)
        return "" if is_plain else f"the unquantized model runs {render_kernels(kernels)}"
    if not gate.expected_kernels:
        return f"the gate names no kernel, and vLLM runs {render_kernels(kernels)}"
    without = why_without_effect(kernels, variant.scheme, is_stored=True)
    return without or why_unexpected(kernels, gate.expected_kernels)

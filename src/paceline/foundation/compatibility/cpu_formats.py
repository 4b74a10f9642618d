"""Choose the number format of a model from the instructions that the processor has."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import Literal

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Any of these multiplies bfloat16 natively (x86: the first two, Arm: the last). Without them
bfloat16 is emulated: 91 against 51 ms per step for a 139M model at batch 4 on AVX-512 VNNI."""


def choose_cpu_dtype(
    cpu_flags: Set[str], kernel_dtypes: Collection[str] = ()
) -> tuple[Literal["bfloat16", "float32"], str]:
    """Return vLLM's dtype for this processor, and the reason. Flags as in /proc/cpuinfo.

    `kernel_dtypes` are those that the kernel of the model's weights is compiled for; empty: all.
    """
    native = sorted(_BF16_FLAGS & cpu_flags)
    if native:
        return "bfloat16", f"bfloat16: the processor has {', '.join(native)}"
    if kernel_dtypes and "float32" not in kernel_dtypes:
        return "bfloat16", "bfloat16: the kernel of the weights is compiled for 16 bits only"
    return "float32", "float32: the processor would emulate bfloat16, which is slower"

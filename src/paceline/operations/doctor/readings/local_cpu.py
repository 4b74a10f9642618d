"""`LocalCpu`: the processor that a server of this machine computes on, and what it has loaded."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

KERNEL_LIBRARIES = ("_C_AVX2", "_C_AVX512", "_C")
"""vLLM's libraries of CPU kernels, the slowest first (platforms/cpu.py, `import_kernels`)."""


@dataclass(frozen=True, slots=True)
class LocalCpu:
    """Read while the server runs."""

    flags: frozenset[str]
    """As listed in /proc/cpuinfo."""
    libraries: frozenset[str]
    """Those of `KERNEL_LIBRARIES` that the server's processes have loaded."""


def fitting_library(flags: Set[str]) -> str:
    """The library that vLLM 0.32 loads on an x86 processor with these flags.

    >>> fitting_library({"avx2", "avx512f", "avx512_vnni"})
    '_C_AVX512'
    """
    if "avx512f" not in flags:
        return "_C_AVX2"
    return "_C" if "avx512_bf16" in flags else "_C_AVX512"

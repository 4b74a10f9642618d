"""Name the class of a processor or GPU by the instructions that decide which formats it runs.

The classes are the columns of `number_formats.json`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final, Literal, get_args

HardwareClass = Literal[
    "cpu-amx",
    "cpu-avx512-vnni",
    "cpu-avx512",
    "cpu-other",
    "gpu-volta",
    "gpu-turing",
    "gpu-ampere",
    "gpu-ada",
    "gpu-hopper",
    "gpu-blackwell",
    "gpu-other",
]

HARDWARE_CLASSES: Final[tuple[HardwareClass, ...]] = get_args(HardwareClass)

DESCRIPTIONS: dict[HardwareClass, str] = {
    "cpu-amx": "a CPU with AMX",
    "cpu-avx512-vnni": "a CPU with AVX-512 VNNI and without AMX",
    "cpu-avx512": "a CPU with AVX-512 and without VNNI",
    "cpu-other": "a CPU without AVX-512",
    "gpu-volta": "a Volta GPU (compute capability 7.0)",
    "gpu-turing": "a Turing GPU (compute capability 7.5)",
    "gpu-ampere": "an Ampere GPU (compute capability 8.0 to 8.7)",
    "gpu-ada": "an Ada GPU (compute capability 8.9)",
    "gpu-hopper": "a Hopper GPU (compute capability 9.0)",
    "gpu-blackwell": "a Blackwell GPU (compute capability 10 to 12)",
    "gpu-other": "a GPU of unknown compute capability",
}

# The lowest compute capability of each class, newest first.
_CAPABILITIES: tuple[tuple[tuple[int, int], HardwareClass], ...] = (
    ((13, 0), "gpu-other"),
    ((10, 0), "gpu-blackwell"),
    ((9, 0), "gpu-hopper"),
    ((8, 9), "gpu-ada"),
    ((8, 0), "gpu-ampere"),
    ((7, 5), "gpu-turing"),
    ((7, 0), "gpu-volta"),
)


def class_of_cpu(cpu_flags: Set[str]) -> HardwareClass:
    """Return the class of a processor from its flags in /proc/cpuinfo.

    >>> class_of_cpu({"avx512f", "avx512_vnni"})
    'cpu-avx512-vnni'
    """
    if "amx_tile" in cpu_flags:
        return "cpu-amx"
    if "avx512_vnni" in cpu_flags:
        return "cpu-avx512-vnni"
    return "cpu-avx512" if "avx512f" in cpu_flags else "cpu-other"


def class_of_gpu(capability: tuple[int, int] | None) -> HardwareClass:
    """Return the class of a GPU from its CUDA compute capability; None where it is not known.

    >>> class_of_gpu((9, 0))
    'gpu-hopper'
    """
    if capability is None:
        return "gpu-other"
    return next((name for lowest, name in _CAPABILITIES if capability >= lowest), "gpu-other")

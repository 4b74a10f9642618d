"""The oldest NVIDIA driver that runs programs of a CUDA release.

From CUDA 11 on, a driver runs programs of all minor versions of its major version:
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
"""

from __future__ import annotations

CudaVersion = tuple[int, int]
"""Major and minor version."""

_OLDEST_DRIVER = {11: "450", 12: "525", 13: "580"}
"""By the major version of CUDA, on Linux."""


def oldest_driver(cuda: CudaVersion) -> str | None:
    """Return the first driver branch for programs built with `cuda`; None if it is not known.

    >>> oldest_driver((12, 8))
    '525'
    """
    return _OLDEST_DRIVER.get(cuda[0])


def can_run(driver_cuda: CudaVersion, built_with: CudaVersion) -> bool:
    """Whether a driver that supports CUDA `driver_cuda` runs programs built with `built_with`.

    `driver_cuda` is what the driver's library reports, which a package for forward compatibility
    raises.
    """
    if built_with[0] < 11:
        return driver_cuda >= built_with
    return driver_cuda[0] >= built_with[0]


def parse_cuda_version(text: str) -> CudaVersion | None:
    """Return the version in a text such as "13.0"; None for any other text."""
    major, _, minor = text.strip().partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None

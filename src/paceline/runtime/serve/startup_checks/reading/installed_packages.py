"""Read the versions of vLLM, torch, Ray and the NVIDIA driver, without importing any of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.foundation.compatibility.cuda_drivers import CudaVersion, parse_cuda_version
from paceline.runtime.engine.launch.brief_process import run_briefly
from paceline.runtime.engine.launch.hardware import Hardware, installed_vllm
from paceline.runtime.serve.startup_checks.facts import Installation, TorchBuild

_ASK_DRIVER = """\
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit(3)
version = ctypes.c_int()
if cuda.cuDriverGetVersion(ctypes.byref(version)) == 0:
    print(version.value)
"""
"""In a process of its own: the library would stay in the gateway's memory."""
_LACKS_LIBRARY = 3


def read_installation(
    hardware: Hardware, environ: Mapping[str, str], *, asks_driver: bool
) -> Installation:
    name, release = installed_vllm()
    driver_cuda, lacks_driver = _ask_driver() if asks_driver else (None, False)
    if environ.get("VLLM_ENABLE_CUDA_COMPATIBILITY", "0").strip().lower() in ("1", "true"):
        driver_cuda = None  # vLLM loads another library of the driver
    return Installation(
        vllm_release=hardware.vllm_release or release,
        torch_pins=parse_torch_pins(importlib.metadata.requires(name) or ()) if name else (),
        torch=_read_torch(),
        ray_version=_version("ray"),
        driver_cuda=driver_cuda,
        lacks_driver=lacks_driver,
        uses_first_ray_executor=environ.get("VLLM_USE_RAY_V2_EXECUTOR_BACKEND") == "0",
    )


def parse_torch_pins(requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the exact versions of torch among a package's requirements, for any platform."""
    found = (re.match(r"torch==([\w.+]+)", requirement) for requirement in requirements)
    return tuple(dict.fromkeys(pin[1] for pin in found if pin is not None))


def parse_torch_build(version_file: str) -> TorchBuild | None:
    """Read torch's `version.py`; None if it names no version."""

    def value_of(name: str) -> str | None:
        found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)", version_file, re.MULTILINE)
        return None if found is None else found[1]

    version = value_of("__version__")
    if version is None:
        return None
    return TorchBuild(version, parse_cuda_version(value_of("cuda") or ""), bool(value_of("hip")))


def _read_torch() -> TorchBuild | None:
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    try:
        return parse_torch_build(
            Path(spec.submodule_search_locations[0], "version.py").read_text(encoding="utf-8")
        )
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _ask_driver() -> tuple[CudaVersion | None, bool]:
    """The newest CUDA that the driver supports, and whether its library is missing."""
    code, output = run_briefly((sys.executable, "-I", "-S", "-c", _ASK_DRIVER))
    number = output.strip()
    if not number.isdigit():
        return None, code == _LACKS_LIBRARY
    return (int(number) // 1000, int(number) % 1000 // 10), False

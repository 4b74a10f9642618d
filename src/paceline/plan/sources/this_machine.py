"""Read what a plan for `--gpu cpu` needs of this machine: cores, free memory, instructions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.compatibility.hardware_classes import parse_cpu_flags


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that the command runs on."""

    num_cores: int
    """Logical CPUs that this process may use."""
    available_memory_bytes: int
    cpu_flags: frozenset[str]
    """As listed in /proc/cpuinfo."""


def read_machine() -> Machine:
    """Read this machine; memory and flags are 0 and empty where the system does not show them."""
    return Machine(
        num_cores=len(os.sched_getaffinity(0)),
        available_memory_bytes=_kilobytes(_read("/proc/meminfo"), "MemAvailable") * 1024,
        cpu_flags=parse_cpu_flags(_read("/proc/cpuinfo")),
    )


def _kilobytes(meminfo: str, name: str) -> int:
    for line in meminfo.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

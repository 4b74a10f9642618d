"""Read what a plan for `--gpu cpu` needs of this machine: cores, free memory, instructions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.machine.cpu_info import read_cpu_flags


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
        available_memory_bytes=_available_kilobytes() * 1024,
        cpu_flags=read_cpu_flags(),
    )


def _available_kilobytes() -> int:
    try:
        meminfo = Path("/proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return 0
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    return 0

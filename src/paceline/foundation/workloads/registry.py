"""Find the built-in workloads: every module of `builtin` declares one."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.workloads.fields import WorkloadError
from paceline.foundation.workloads.workload import Workload

BUILTIN = "paceline.foundation.workloads.builtin"


def workload_names() -> tuple[str, ...]:
    """The names of the built-in workloads, in alphabetical order."""
    return tuple(load_workloads())


def load_workload(name: str) -> Workload:
    """The built-in workload of this name; WorkloadError for an unknown one."""
    workloads = load_workloads()
    if name not in workloads:
        raise WorkloadError(
            f"workload is {name!r}; it must be one of {', '.join(workloads)}"
            f"{did_you_mean(name, workloads)}"
        )
    return workloads[name]


@functools.cache
def load_workloads() -> dict[str, Workload]:
    """All built-in workloads by name, in alphabetical order."""
    return find_workloads(importlib.import_module(BUILTIN))


def find_workloads(package: ModuleType) -> dict[str, Workload]:
    """The workloads declared in the modules of `package`, by name, in alphabetical order.

    Raises WorkloadError for a module without `WORKLOAD`, or whose workload has another name than
    its file.
    """
    found: dict[str, Workload] = {}
    for module_name in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{module_name}")
        workload: Workload | None = getattr(module, "WORKLOAD", None)
        if workload is None:
            raise WorkloadError(f"{module.__name__} must assign its workload to WORKLOAD")
        if workload.name != module_name:
            raise WorkloadError(
                f"{module.__name__} declares the workload {workload.name!r}; "
                f"its name must be that of the file, {module_name!r}"
            )
        found[workload.name] = workload
    return found

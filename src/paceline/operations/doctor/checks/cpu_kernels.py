"""`cpu-kernels`: kernels that do not use what the processor of an engine can do.

Known are the kernels of linear layers, from the governor's state or from the log, and on the
server's own machine the processor's instructions and vLLM's library of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from paceline.foundation.compatibility.hardware_classes import (
    DESCRIPTIONS,
    HARDWARE_CLASSES,
    HardwareClass,
    class_of_cpu,
)
from paceline.foundation.compatibility.number_formats import slow_row
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.local_cpu import (
    KERNEL_LIBRARIES,
    LocalCpu,
    fitting_library,
)
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost

_DEVICE = re.compile(r"\bdevice_config=(\w+)")
_DTYPE = re.compile(r"\bdtype=torch\.(\w+)")
"""Both as vLLM logs its configuration at the start (config/vllm.py)."""
_KERNEL = re.compile(
    r"Selected (\w+Kernel) for |Using (\w+Kernel) for mixed-precision linear|"
    r"(\w+Kernel)(?: \(\w+\))? in \d+ layer"
)
"""vLLM's first choice of each kind (kernels/linear/__init__.py), and Paceline's list of layers."""
_CPUS = tuple(one for one in HARDWARE_CLASSES if one.startswith("cpu-"))
_COST = unknown_cost(
    "the server was not run with another kernel here; paceline bench compare measures it"
)


def _judge(observation: Observation) -> Sequence[Finding]:
    log = observation.log_lines or ()
    cpu = observation.local_cpu
    devices = [device for line in log for device in _DEVICE.findall(line)]
    if devices and devices[-1] != "cpu":
        return ()
    kernels = _of_governors(observation) or _of_log(observation, log)
    if cpu is None and not kernels:
        raise CannotJudge(
            "the server does not show its kernels: give --log, or run the doctor on its machine"
        )
    classes = _classes(cpu)
    findings = [
        finding
        for subject, kernel, version in dict.fromkeys(kernels)
        if version is not None and (finding := _slow(subject, kernel, classes, version))
    ]
    is_cpu = cpu is not None or devices or any(one.startswith("CPU") for _, one, _ in kernels)
    if findings and not is_cpu:
        raise CannotJudge("the server does not show whether it computes on a CPU: give --log")
    if cpu is not None:
        findings += [*_library(cpu), *_dtype(cpu, log)]
    return findings


def _classes(cpu: LocalCpu | None) -> tuple[HardwareClass, ...]:
    """The classes that the processor may have: all, unless it is known to be one with x86's flags.

    Arm has other instructions for INT8 and bfloat16, which the classes do not distinguish.
    """
    is_x86 = cpu is not None and any(flag.startswith(("sse", "avx")) for flag in cpu.flags)
    return (class_of_cpu(cpu.flags),) if cpu is not None and is_x86 else _CPUS


def _of_governors(observation: Observation) -> list[tuple[str | None, str, str | None]]:
    """Replica, kernel and version of vLLM."""
    versions = {str(one.get("name")): one.get("version") for one in observation.last.replicas}
    return [
        (name, kernel, versions.get(name))
        for name, state in observation.last.governors.items()
        for kernel in _names(state)
    ]


def _names(state: Mapping[str, Any]) -> list[str]:
    kernels = state.get("kernels")
    return [str(one).partition(" ")[0] for one in kernels] if isinstance(kernels, dict) else []


def _of_log(
    observation: Observation, log: Sequence[str]
) -> list[tuple[str | None, str, str | None]]:
    return [
        (None, next(filter(None, found)), observation.version)
        for line in log
        for found in _KERNEL.findall(line)
    ]


def _slow(
    subject: str | None, kernel: str, classes: Collection[HardwareClass], version: str
) -> Finding | None:
    row = slow_row(kernel, classes, version)
    if row is None:
        return None
    where = DESCRIPTIONS[next(iter(classes))] if len(classes) == 1 else "a CPU"
    return Finding(
        id="cpu-kernel-slow",
        severity=Severity.WARNING,
        summary=f"The linear layers run {kernel} on {where}: {row.reason}.",
        evidence=(
            Evidence("kernel", kernel),
            Evidence("processor", where),
            Evidence(f"{row.evidence.basis} with vLLM {row.evidence.vllm}", row.evidence.outcome),
        ),
        cost=_COST,
        cause="The number format of the weights has no fast kernel for these instructions.",
        remedy=(
            "Serve the model unquantized or in another format, and compare "
            "(docs/number-formats.md has those that this processor runs)"
        ),
        settings=("model",),
        subject=subject,
    )


def _library(cpu: LocalCpu) -> Sequence[Finding]:
    """vLLM's library for fewer instructions than the processor has."""
    fitting = fitting_library(cpu.flags)
    best = max(cpu.libraries, key=KERNEL_LIBRARIES.index)
    if KERNEL_LIBRARIES.index(best) >= KERNEL_LIBRARIES.index(fitting):
        return ()
    has = ", ".join(sorted(cpu.flags & {"avx2", "avx512f", "avx512_bf16"}))
    return [
        Finding(
            id="cpu-kernel-slow",
            severity=Severity.WARNING,
            summary=f"vLLM has loaded its kernels {best}; this processor runs {fitting}.",
            evidence=(Evidence("library loaded", best), Evidence("processor has", has)),
            cost=_COST,
            cause=(
                "The build has no kernels for this processor, or vLLM did not see its instructions "
                "when it started."
            ),
            remedy="Use the image or wheel for this processor; the log names libraries that failed",
            settings=("image",),
        )
    ]


def _dtype(cpu: LocalCpu, log: Sequence[str]) -> Sequence[Finding]:
    """float32 where the processor multiplies bfloat16."""
    native = sorted(cpu.flags & {"avx512_bf16", "amx_bf16"})
    found = [dtype for line in log if _DEVICE.search(line) for dtype in _DTYPE.findall(line)]
    if not native or not found or found[-1] != "float32":
        return ()
    return [
        Finding(
            id="cpu-dtype-slow",
            severity=Severity.INFO,
            summary=f"The engine computes in float32; this processor has {', '.join(native)}.",
            evidence=(Evidence("dtype", found[-1]), Evidence("processor has", ", ".join(native))),
            cost=_COST,
            cause=(
                "Weights and KV cache take twice the memory of bfloat16, and the instructions for "
                "bfloat16 are not used."
            ),
            remedy="Serve in bfloat16, unless the model needs float32",
            settings=("dtype",),
        )
    ]


CHECK = Check(
    "cpu-kernels",
    "kernels that do not use what the processor can do",
    ("cpu-kernel-slow", "cpu-dtype-slow"),
    _judge,
)

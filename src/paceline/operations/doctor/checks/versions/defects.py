"""`known-defects`: faults of this release of vLLM that change an output or end the engine.

All known ones are of CPUs. A server does not say what it computes on; a log does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.compatibility.vllm_defects import CpuDefect, cpu_defects
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, Severity, unknown_cost

_DEVICE = re.compile(r"\bdevice_config=(\w+)")
"""As vLLM logs its configuration at the start (config/vllm.py)."""
_CPU_BUILD = re.compile(r"[+.]cpu$")
"""End of the version: 0.32.0+cpu, or 0.32.1.dev7+g0a1b2c3.cpu for a build from source (setup.py).
"""
_CPU_BLOCK = 128
"""Fewest tokens in a block of the KV cache that vLLM chooses on CPUs, except for models with MLA.
Models with Mamba layers have larger blocks (platforms/cpu.py)."""


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.kind != "vllm":
        if all(map(_is_corrected, observation.last.replicas)) and observation.last.replicas:
            return ()
        raise CannotJudge("the gateway does not show what its replicas compute on; ask their ports")
    version = observation.version
    if version is None:
        raise CannotJudge("the server does not report its version")
    defects = cpu_defects(
        version,
        speculates=any(one[-1].drafts_total is not None for one in observation.engines.values()),
        has_plugin=observation.last.page.has_plugin,
    )
    if not defects:
        return ()
    is_cpu = _is_cpu(observation, version)
    if is_cpu is None:
        raise CannotJudge(
            f"vLLM {version} has {len(defects)} known defects on CPUs, and the server does not "
            "show whether it runs on one: give --log, or try it with paceline audit"
        )
    return [_finding(version, defects)] if is_cpu else ()


def _is_corrected(replica: Mapping[str, Any]) -> bool:
    """Whether Paceline runs in this replica and corrects all defects of its vLLM."""
    version = replica.get("version")
    return (
        replica.get("origin") == "local"
        and isinstance(version, str)
        and not cpu_defects(version, speculates=True, has_plugin=True)
    )


def _is_cpu(observation: Observation, version: str) -> bool | None:
    """Whether the server computes on a CPU; None if that is not shown."""
    if _CPU_BUILD.search(version) or observation.local_cpu is not None:
        return True
    found = [device for line in observation.log_lines or () for device in _DEVICE.findall(line)]
    if found:
        return bool(found[-1] == "cpu")
    samples = observation.last.page.select("vllm:cache_config_info")
    labels = samples[0].labels if samples else {}
    is_default = labels.get("user_specified_block_size") == "False"
    size = labels.get("block_size", "")
    return False if is_default and size.isdecimal() and int(size) < _CPU_BLOCK else None


def _finding(version: str, defects: Sequence[CpuDefect]) -> Finding:
    common = [one for one in defects if one.is_common]
    first = (common or defects)[0]
    others = f"; {len(defects) - 1} more are known" if len(defects) > 1 else ""
    return Finding(
        id="vllm-known-defects",
        severity=Severity.CRITICAL if common else Severity.INFO,
        summary=f"vLLM {version} on a CPU {first.effect}{others}.",
        evidence=tuple(Evidence(one.evidence, one.effect) for one in defects),
        cost=unknown_cost("it depends on the requests; paceline audit shows what they get"),
        cause="Defects of this release that Paceline's plugin does not correct here.",
        remedy=(
            "Install Paceline beside vLLM: its plugin corrects them in release "
            f"{defects[0].corrected[0]}" + ("; or serve without speculation" if common else "")
        ),
        settings=("speculative_config",) if common else (),
    )


CHECK = Check(
    "known-defects",
    "faults of this release of vLLM that change an output or end the engine",
    ("vllm-known-defects",),
    _judge,
)

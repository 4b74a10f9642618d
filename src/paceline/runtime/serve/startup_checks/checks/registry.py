"""All checks by name, applied to the facts."""

from __future__ import annotations

from collections.abc import Callable, Collection

from paceline.runtime.serve.startup_checks.checks.installation import (
    check_driver,
    check_ray,
    check_torch,
    check_vllm,
)
from paceline.runtime.serve.startup_checks.checks.limits import check_descriptors, check_disk
from paceline.runtime.serve.startup_checks.checks.memory import check_memory
from paceline.runtime.serve.startup_checks.checks.nodes import check_nodes, check_pipeline
from paceline.runtime.serve.startup_checks.checks.pair import check_pair
from paceline.runtime.serve.startup_checks.checks.parallelism import (
    check_gpu_count,
    check_nvlink,
    check_shared_memory,
    check_split,
)
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import (
    CannotJudge,
    CheckResult,
    Found,
    Verdict,
    passed,
    warning,
)


def _check_formats(facts: StartupFacts) -> Found | None:
    """Formats that cannot run are refused in planning; what is left are cautions."""
    if facts.launch is None:
        return None
    if facts.format_cautions:
        return warning("; ".join(facts.format_cautions))
    return passed("this hardware runs the number formats of the models and the KV cache")


_ENGINE_CHECKS: dict[str, Callable[[StartupFacts], Found | None]] = {
    "vllm": check_vllm,
    "torch": check_torch,
    "driver": check_driver,
    "ray": check_ray,
    "gpus": check_gpu_count,
    "split": check_split,
    "pipeline": check_pipeline,
    "nodes": check_nodes,
    "formats": _check_formats,
    "vocabulary": check_pair,
    "memory": check_memory,
    "nvlink": check_nvlink,
    "shared-memory": check_shared_memory,
    "disk": check_disk,
}
CHECKS: dict[str, Callable[[StartupFacts], Found | None]] = {
    **_ENGINE_CHECKS,
    "descriptors": check_descriptors,
}
"""In the order in which they are reported. None: the check does not apply."""


def judge(facts: StartupFacts, skipped: Collection[str] = ()) -> list[CheckResult]:
    """Apply all checks that apply, except those that are `skipped`. Never raises."""
    results = []
    for name, check in CHECKS.items():
        if name in skipped or (facts.launch is None and name in _ENGINE_CHECKS):
            continue
        try:
            found = check(facts)
        except CannotJudge as reason:
            results.append(CheckResult(name, Verdict.NOT_JUDGED, str(reason)))
            continue
        if found is not None:
            results.append(CheckResult(name, found.verdict, found.text))
    return results

"""Whether `paceline validate` finds every injected fault, and passes sound deployments.

The deployments are mock engines, alone and with Paceline's gateway in front of them. Every fault is
injected before each of them that can have it; the check that must find it has to pass before, with
the same time for counters to settle, and to fail for the fault's own reason meanwhile. Then sound
deployments are validated, each freshly started, some of them with the gateway's default periods. A
check that is skipped there although it has all that it needs counts as a miss. An interrupted run
is completed with --resume. The exit code is 1 if a fault was missed, or a sound deployment failed
or was not judged, and 130 after Ctrl-C.

    python -m benchmarks.validate_faults --results benchmarks/results
    python -m benchmarks.validate_faults --resume benchmarks/results/validate-faults-DATE.json
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from unit.validate.deployments import (
    EXPECTED_SKIPS,
    SETTLE_S,
    RunningDeployment,
    check_of,
    running,
)

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_allow_dirty, add_resume, begin_or_resume
from paceline.foundation.results.environment import describe_environment
from paceline.operations.validate.checks import CHECKS
from paceline.operations.validate.target.target import SETTLE_S as DEFAULT_SETTLE_S
from paceline.operations.validate.values import CheckResult, Status
from paceline.runtime.gateway import FleetSettings
from paceline.testing.fault_injection import FAULTS, Fault
from paceline.testing.fault_injection.fault import NO_FAULT
from paceline.testing.mock_vllm import FaultKind

_SAMPLER_FAULTS = (
    FaultKind.ARGMAX_FLIP,
    FaultKind.ACCEPT_ALL,
    FaultKind.OFF_BY_ONE,
    FaultKind.TEMPERATURE_IGNORED,
    FaultKind.PENALTIES_IGNORED,
)
"""Defects that the check `lossless` must find."""
_SEPARATE = {"drafting": ("acceptance", "lossless"), "baseline": ("quality",)}
"""Checks of deployments that have what these checks need. The deployment that drafts would fail
another one: it has the mock's administration page on its data port."""
_AUDIT_SECONDS = 120.0
"""As `paceline validate` has it. An audit ends by itself, so this matters on busy machines only."""
_DEFAULT_PERIODS_EVERY = 10
"""One clean run in ten, a gateway, reads its replicas as rarely as it does by default."""
_AUDITED_EVERY = 5
"""Every fifth clean run includes the checks of `_SEPARATE`: an audit takes most of the time."""


def kinds_of(fault: Fault) -> tuple[str, ...]:
    """The deployments that can have a fault; the gateway of this benchmark requires no key."""
    is_general = fault.deployment == "plain" and fault.check != "api-keys"
    return (fault.deployment, "gateway") if is_general else (fault.deployment,)


async def run_faults(kind: str, faults: Sequence[Fault], add: Callable[..., None]) -> None:
    """Inject faults before one deployment."""
    async with running(kind) as deployment:
        for fault in faults:
            add(**await try_fault(deployment, kind, fault, SETTLE_S))


async def try_fault(
    deployment: RunningDeployment, kind: str, fault: Fault, settle_s: float
) -> dict[str, Any]:
    """Run the check that must find a fault without it and with it; an entry of the result."""
    check = check_of(fault)
    clean = await deployment.run_check_with(check, NO_FAULT, settle_s)
    result = await deployment.run_check_with(check, fault, settle_s)
    is_found = result.status is Status.FAIL and fault.evidence in result.reason
    return {
        "fault": fault.name, "deployment": kind, "check": fault.check,
        "clean_status": clean.status.value, "status": result.status.value,
        "is_found": is_found and clean.status is Status.PASS, "reason": result.reason[:200],
        "seconds": result.seconds,
    }  # fmt: skip


async def run_sampler_fault(kind: FaultKind, add: Callable[..., None]) -> None:
    """Audit a sound mock engine, and one whose sampler is defective."""
    (check,) = [check for check in CHECKS if check.id == "lossless"]
    clean, result = [await _audit(sampler_fault) for sampler_fault in (None, kind)]
    is_found = result.status is Status.FAIL and result.reason.startswith("lossy: ")
    add(
        fault=f"sampler-{kind.value}", deployment="drafting", check=check.id,
        clean_status=clean.status.value, status=result.status.value,
        is_found=is_found and clean.status is Status.PASS,
        reason=result.reason[:200], seconds=result.seconds,
    )  # fmt: skip


async def _audit(sampler_fault: FaultKind | None) -> CheckResult:
    async with running("drafting", sampler_fault) as deployment:
        deployment.clean.audit_seconds = _AUDIT_SECONDS
        return await _run_named(deployment, "lossless")


async def run_clean(number: int, add: Callable[..., None]) -> None:
    """Validate a sound server, or in every second run a sound gateway, freshly started."""
    kind = ("plain", "gateway")[number % 2]
    separate = [name for names in _SEPARATE.values() for name in names]
    others = [check for check in CHECKS if check.id not in separate]
    has_default_periods = number % _DEFAULT_PERIODS_EVERY == 1
    periods: dict[str, Any] = {}
    if has_default_periods:
        periods = {"fleet": FleetSettings(), "settle_s": DEFAULT_SETTLE_S}
    async with running(kind, **periods) as deployment:
        results = [await deployment.run(check) for check in others]
    skipped = [one.id for one in results if one.status is Status.SKIP]
    unexpected = [name for name in skipped if name not in EXPECTED_SKIPS[kind]]
    is_audited = number % _AUDITED_EVERY == 0
    if is_audited:
        for separate_kind, names in _SEPARATE.items():
            async with running(separate_kind) as deployment:
                deployment.clean.audit_seconds = _AUDIT_SECONDS
                found = [await _run_named(deployment, name) for name in names]
            results += found
            unexpected += [one.id for one in found if one.status is Status.SKIP]
    add(
        number=number, deployment=kind, is_audited=is_audited,
        num_passed=sum(one.status is Status.PASS for one in results),
        failed=[[one.id, one.reason] for one in results if one.status is Status.FAIL],
        skipped=[one.id for one in results if one.status is Status.SKIP],
        unexpected_skips=unexpected, has_default_periods=has_default_periods,
        seconds=round(sum(one.seconds for one in results), 1),
    )  # fmt: skip


async def _run_named(deployment: RunningDeployment, name: str) -> CheckResult:
    (check,) = [check for check in CHECKS if check.id == name]
    return await deployment.run(check)


def summarise(document: dict[str, Any]) -> dict[str, Any]:
    """Counts of faults and clean runs."""
    faults, clean = document["faults"], document["clean_runs"]
    return {
        "num_faults": len({one["fault"] for one in faults}),
        "num_injected": len(faults),
        "num_found": sum(one["is_found"] for one in faults),
        "not_found": [[one["fault"], one["deployment"]] for one in faults if not one["is_found"]],
        "num_checks_proved": len({one["check"] for one in faults if one["is_found"]}),
        "num_clean_runs": len(clean),
        "num_clean_runs_audited": sum(one["is_audited"] for one in clean),
        "num_clean_checks_passed": sum(one["num_passed"] for one in clean),
        "num_false_failures": sum(len(one["failed"]) for one in clean),
        "num_unexpected_skips": sum(len(one["unexpected_skips"]) for one in clean),
    }


class _Progress:
    """Adds entries to the document and writes it after each."""

    def __init__(self, file: ResultFile, document: dict[str, Any]) -> None:
        self._file, self.document = file, document

    def add_to(self, name: str) -> Callable[..., None]:
        def add(**entry: Any) -> None:
            self.document[name].append(entry)
            self.document["summary"] = summarise(self.document)
            self._file.write(self.document)
            if sys.stderr.isatty():
                summary = self.document["summary"]
                print(
                    f"\r{summary['num_injected']} faults, {summary['num_clean_runs']} clean runs",
                    end="", file=sys.stderr,
                )  # fmt: skip

        return add

    def has_fault(self, name: str, kind: str) -> bool:
        return any((e["fault"], e["deployment"]) == (name, kind) for e in self.document["faults"])


def read_options(description: str | None) -> argparse.Namespace:
    """The options of this benchmark and of the one before the bundled pair."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--num-clean-runs", type=int, default=50)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_resume(parser)
    add_allow_dirty(parser)
    return parser.parse_args()


def main() -> int:
    """Inject, validate, sum up; the exit code."""
    options = read_options(__doc__)
    end_by_sigterm_too()
    logging.disable(logging.ERROR)  # the gateway logs what the faults do to it
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    begun = {
        "name": "validate-faults",
        "config": {"num_clean_runs": options.num_clean_runs, "audit_seconds": _AUDIT_SECONDS},
        "environment": asdict(describe_environment(sys.argv)),
        "summary": {},
        "faults": [],
        "clean_runs": [],
    }
    path = options.results / f"validate-faults-{date}.json"
    file, document = begin_or_resume(
        path, options.resume, begun, same=("config",), allow_dirty=options.allow_dirty
    )
    progress = _Progress(file, document)
    try:
        asyncio.run(_run_all(progress, options.num_clean_runs))
    except KeyboardInterrupt:
        return end_incomplete(file.path)
    print(f"{file.path}: {document['summary']}")
    return int(is_anything_wrong(document["summary"]))


def is_anything_wrong(summary: Mapping[str, Any]) -> bool:
    """Whether a fault was missed, or a sound deployment failed or was not judged."""
    names = ("not_found", "num_false_failures", "num_unexpected_skips")
    return any(summary[name] for name in names)


async def _run_all(progress: _Progress, num_clean_runs: int) -> None:
    for kind in ("plain", "drafting", "baseline", "gateway"):
        left = [
            fault
            for fault in FAULTS
            if kind in kinds_of(fault) and not progress.has_fault(fault.name, kind)
        ]
        if left:
            await run_faults(kind, left, progress.add_to("faults"))
    for sampler_fault in _SAMPLER_FAULTS:
        if not progress.has_fault(f"sampler-{sampler_fault.value}", "drafting"):
            await run_sampler_fault(sampler_fault, progress.add_to("faults"))
    for number in range(len(progress.document["clean_runs"]), num_clean_runs):
        await run_clean(number, progress.add_to("clean_runs"))


if __name__ == "__main__":
    sys.exit(main())

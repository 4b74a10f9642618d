"""How often an audit errs: right servers that it calls lossy, planted defects that it misses.

The servers are the mock's model without HTTP, with known distributions, and speculate. Each audit
of a right one runs until it would have found the smallest bias; each defect has the size that the
unit tests use.

    python -m benchmarks.audit_false_alarms
    python -m benchmarks.audit_false_alarms --resume benchmarks/results/audit-false-alarms-….json.gz

The result is written every ten audits; `--resume` completes one that Ctrl-C or `--minutes` ended.
The exit code is 1 if the run is not complete, a right server is called lossy more often than the
audit states (`MAX_ALARMS`), or a defect is missed, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from unit.audit.simulated import simulated_server
from unit.audit.test_auditing import SMALLEST

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_resumable, begin_or_resume
from paceline.foundation.results.environment import Environment, describe_environment
from paceline.testing.mock_vllm.model.sampling_defect import DefectKind
from paceline.workbench.audit.auditing import Audit, AuditConfig

_WRITTEN_EVERY = 10
MAX_ALARMS = 2
"""Of 200 audits: at the stated rate of 1/1000 three or more have a probability of 0.001."""


async def audited(kind: DefectKind, share: float, seed: int, config: AuditConfig) -> dict[str, Any]:
    """One audit as an entry of the result."""
    start_s = time.process_time()
    audit = Audit(simulated_server(kind, share, seed=seed), config)
    await audit.run()
    evidence = audit.sampled.evidence
    return {
        "kind": kind.value,
        "share": share,
        "seed": seed,
        "verdict": audit.decision().verdict.value,
        "ln_e": round(evidence.log_e, 3),
        "smallest_bias": audit.sampled.bias,
        "num_drafted_tokens": evidence.pooled.num_tokens,
        "num_requests": audit.server.num_requests,
        "cpu_s": round(time.process_time() - start_s, 2),
    }


def summarise(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Verdicts by kind, and the largest evidence against a right server."""
    kinds = dict.fromkeys(one["kind"] for one in audits)
    return {
        kind: {
            "num_audits": len(some),
            "num_lossy": sum(one["verdict"] == "lossy" for one in some),
            "num_lossless": sum(one["verdict"] == "lossless" for one in some),
            "max_ln_e": max(one["ln_e"] for one in some),
            "max_drafted_tokens": max(one["num_drafted_tokens"] for one in some),
        }
        for kind in kinds
        if (some := [one for one in audits if one["kind"] == kind])
    }


def main() -> int:
    """Run the audits that are missing; the exit code."""
    arguments = _parser().parse_args()
    end_by_sigterm_too()
    environment = describe_environment(sys.argv)
    result, document = begin_or_resume(
        arguments.results / f"audit-false-alarms-{environment.date_utc[:10]}.json.gz",
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        but_for=("num_seeds", "num_defect_seeds"),
        allow_dirty=arguments.allow_dirty,
    )
    try:
        _audit_all(document, result, environment.commit, 60 * arguments.minutes)
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    print(f"{result.path}: {document['summary']}")
    wrong = find_wrong(document["summary"])
    print(*wrong, sep="\n")
    return int(bool(wrong) or not document["is_complete"])


def find_wrong(summary: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the audits got wrong, in words; empty if nothing."""
    found = []
    for kind, figures in summary.items():
        num, num_lossy = figures["num_audits"], figures["num_lossy"]
        if kind == DefectKind.NO_DEFECT.value:
            if num_lossy > MAX_ALARMS:
                found.append(f"{num_lossy} of {num} right servers are called lossy")
        elif num_lossy < num:
            found.append(f"{kind}: {num - num_lossy} of {num} are not found")
    return found


def _audit_all(
    document: dict[str, Any], result: ResultFile, commit: str | None, seconds: float
) -> None:
    """Add the audits that are missing; the result is written every ten, and at the end."""
    settings, audits = document["settings"], document["audits"]
    right = AuditConfig(smallest_bias=settings["smallest_bias"], max_seconds=3600)
    wrong = AuditConfig(smallest_bias=settings["defect_bias"], max_seconds=3600)
    plans = [(DefectKind.NO_DEFECT, 1.0, seed, right) for seed in range(settings["num_seeds"])]
    plans += [
        (kind, share, seed, wrong)
        for kind, share in SMALLEST.items()
        for seed in range(settings["num_defect_seeds"])
    ]
    done = {(one["kind"], one["seed"]) for one in audits}
    left = [plan for plan in plans if (plan[0].value, plan[2]) not in done]
    document["is_complete"] = not left
    deadline_s = time.monotonic() + seconds
    for number, plan in enumerate(left, 1):
        audits.append({**asyncio.run(audited(*plan)), "commit": commit})
        is_over = number == len(left) or time.monotonic() > deadline_s
        if number % _WRITTEN_EVERY == 0 or is_over:
            document["summary"] = summarise(audits)
            document["is_complete"] = number == len(left)
            result.write(document)
            print(f"{len(audits)} of {len(plans)} audits", flush=True)
        if is_over:
            break


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "name": "audit-false-alarms",
        "environment": asdict(environment),
        "settings": {
            "num_seeds": arguments.num_seeds,
            "num_defect_seeds": arguments.num_defect_seeds,
            "smallest_bias": arguments.smallest_bias,
            "defect_bias": 0.05,
        },
        "is_complete": False,
        "summary": {},
        "audits": [],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--num-seeds", type=int, default=200, help="audits of a right server")
    parser.add_argument("--num-defect-seeds", type=int, default=20, help="audits per defect")
    parser.add_argument("--smallest-bias", type=float, default=0.3)
    add_resumable(parser, minutes=180.0, unit="audit")
    return parser


if __name__ == "__main__":
    sys.exit(main())

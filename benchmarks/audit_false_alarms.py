"""How often an audit errs: right servers that it calls lossy, planted defects that it misses.

The servers are the mock's model without HTTP, with known distributions, and speculate. Each audit
of a right one runs until it would have found the smallest bias; each defect has the size that the
unit tests use.

    python -m benchmarks.audit_false_alarms --num-seeds 200 --results benchmarks/results
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unit.audit.simulated import simulated_server
from unit.audit.test_auditing import SMALLEST

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.audit.auditing import Audit, AuditConfig
from paceline.bench.results.environment import describe_environment
from paceline.mock_vllm.model.sampling_defect import DefectKind


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--num-seeds", type=int, default=200, help="audits of a right server")
    parser.add_argument("--num-defect-seeds", type=int, default=20, help="audits per defect")
    parser.add_argument("--smallest-bias", type=float, default=0.3)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    add_allow_dirty(parser)
    options = parser.parse_args()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    file = ResultFile(
        options.results / f"audit-false-alarms-{date}.json", allow_dirty=options.allow_dirty
    )
    right = AuditConfig(smallest_bias=options.smallest_bias, max_seconds=3600)
    wrong = AuditConfig(smallest_bias=0.05, max_seconds=3600)
    plans = [(DefectKind.NO_DEFECT, 1.0, seed, right) for seed in range(options.num_seeds)]
    plans += [
        (kind, share, seed, wrong)
        for kind, share in SMALLEST.items()
        for seed in range(options.num_defect_seeds)
    ]
    audits = []
    for number, plan in enumerate(plans, 1):
        audits.append(asyncio.run(audited(*plan)))
        if sys.stderr.isatty():
            print(f"\r{number} of {len(plans)} audits", end="", file=sys.stderr)
    file.write(
        {
            "name": "audit-false-alarms",
            "config": {"smallest_bias": options.smallest_bias},
            "environment": asdict(describe_environment(sys.argv)),
            "summary": summarise(audits),
            "audits": audits,
        }
    )
    print(f"{file.path}: {summarise(audits)}")


if __name__ == "__main__":
    main()

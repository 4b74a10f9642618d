"""`paceline validate` on the bundled pair in `paceline serve`: injected faults, and clean runs.

    python -m benchmarks.validate_bundled --results benchmarks/results
    python -m benchmarks.validate_bundled --resume benchmarks/results/validate-bundled-DATE.json

One `paceline serve` with its defaults, as `make serve` starts it. Every fault that such a
deployment can have is injected by a proxy before it: the check that must find it has to pass
without the fault and to fail for the fault's own reason with it. Then the command itself is run
`--num-clean-runs` times; every fifth run includes the audit (`lossless`), which takes most of the
time. The result is written after each fault and run, and `--resume` completes it. The exit code is
1 if a fault was missed or a clean run failed, and 130 after Ctrl-C.

`benchmarks/validate_faults.py` does the same before mock engines, with the faults that need what
this deployment lacks: keys, a second replica, a baseline, a defective sampler.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from unit.validate.deployments import RunningDeployment

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, begin_or_resume
from benchmarks.servers import Server, running_server
from benchmarks.validate_faults import is_anything_wrong, read_options, summarise, try_fault
from paceline.foundation.results.environment import describe_environment
from paceline.operations.validate.checks import CHECKS, Deployment
from paceline.operations.validate.target.target import SETTLE_S, Addresses, Target
from paceline.operations.validate.tiers import tiers
from paceline.testing.fault_injection import FAULTS, Fault, FaultProxy

TIER = "local"
_AUDITED_EVERY = 5
_AUDIT = "lossless"
_LACKING = ("api-keys", "draining", "quality")
"""Checks of what the deployment does not have: keys, a second replica, an unquantized baseline."""
_PACELINE = [sys.executable, "-c", "from paceline.cli import main; main(prog_name='paceline')"]
_SERVE = [*_PACELINE, "serve", "bundled", "--port", "{port}", "--admin-port", "{admin_port}"]
_KIND = "bundled"
_TOO_FAST = "cancellation"
"""This check needs answers that last longer than the gateway's gauges lag, by up to 5 s. Those of
the pair, whose context is short, take 3 to 5 s: it passes on a busy machine and is skipped else."""
_MAY_BE_SKIPPED = (*_LACKING, _TOO_FAST)


def suits(fault: Fault) -> bool:
    """Whether a gateway over one governed engine can have this fault."""
    return fault.deployment != "baseline" and fault.check not in _MAY_BE_SKIPPED


def main() -> int:
    """Inject, validate, sum up; the exit code."""
    options = read_options(__doc__)
    end_by_sigterm_too()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    begun = {
        "name": "validate-bundled",
        "config": {"num_clean_runs": options.num_clean_runs, "tier": TIER},
        "environment": asdict(describe_environment(sys.argv)),
        "is_complete": False,
        "summary": {},
        "faults": [],
        "clean_runs": [],
    }
    file, document = begin_or_resume(
        options.results / f"validate-bundled-{date}.json",
        options.resume, begun, same=("config",), allow_dirty=options.allow_dirty,
    )  # fmt: skip
    try:
        with (
            tempfile.TemporaryDirectory(prefix="validate-bundled-") as folder,
            running_server("bundled", {"command": _SERVE}, Path(folder)) as server,
        ):
            asyncio.run(_inject_all(server, document, file))
            _run_all_clean(server, Path(folder), document, file, options.num_clean_runs)
    except KeyboardInterrupt:
        return end_incomplete(file.path)
    document["is_complete"] = True
    _save(document, file)
    print(f"{file.path}: {document['summary']}")
    return int(is_anything_wrong(document["summary"]))


def _save(document: dict[str, Any], file: ResultFile) -> None:
    document["summary"] = {
        **summarise(document),
        "longest_run_s": max((run["seconds"] for run in document["clean_runs"]), default=None),
        "fewest_passed": min((run["num_passed"] for run in document["clean_runs"]), default=None),
    }
    file.write(document)


async def _inject_all(server: Server, document: dict[str, Any], file: ResultFile) -> None:
    done = {entry["fault"] for entry in document["faults"]}
    left = [fault for fault in FAULTS if suits(fault) and fault.name not in done]
    if not left:
        return
    async with _before(server) as deployment:
        for fault in left:
            entry = await try_fault(deployment, _KIND, fault, SETTLE_S)
            document["faults"].append(entry)
            _save(document, file)
            print(f"{fault.name}: {entry['status']}, {entry['seconds']:.1f} s", flush=True)


@asynccontextmanager
async def _before(server: Server) -> AsyncIterator[RunningDeployment]:
    """The server behind a proxy that injects faults."""
    async with (
        FaultProxy(server.url, server.admin_url) as proxy,
        aiohttp.ClientSession() as session,
    ):
        assert proxy.admin_url is not None
        addresses = Addresses(URL(proxy.url), URL(proxy.admin_url), None)
        target = Target(session, addresses, settle_s=SETTLE_S)
        await target.identify(None)
        yield RunningDeployment(proxy, target, Deployment(target, tiers()[TIER]))


def _run_all_clean(
    server: Server, folder: Path, document: dict[str, Any], file: ResultFile, num_runs: int
) -> None:
    for number in range(len(document["clean_runs"]), num_runs):
        document["clean_runs"].append(_run_clean(server, folder / f"report-{number}.json", number))
        _save(document, file)
        print(f"clean run {number}: {document['summary']}", flush=True)


def _run_clean(server: Server, report: Path, number: int) -> dict[str, Any]:
    """The command of a user; an entry of the result."""
    is_audited = number % _AUDITED_EVERY == 0
    wanted = [check.id for check in CHECKS if check.id not in (_AUDIT, *_LACKING)]
    words = ["validate", server.url, "--admin-url", server.admin_url, "--tier", TIER]
    words += ["--json", str(report)]
    if not is_audited:
        words += [word for name in wanted for word in ("--only", name)]
    started_s = time.monotonic()
    done = subprocess.run([*_PACELINE, *words], check=False, capture_output=True, text=True)
    seconds = round(time.monotonic() - started_s, 1)
    if not report.is_file():
        raise SystemExit(f"clean run {number} ended with {done.returncode}: {done.stderr[-2000:]}")
    checks = json.loads(report.read_text())["checks"]
    skipped = [one["id"] for one in checks if one["status"] == "SKIP"]
    return {
        "number": number,
        "is_audited": is_audited,
        "exit_code": done.returncode,
        "num_passed": sum(one["status"] == "PASS" for one in checks),
        "failed": [[one["id"], one["reason"]] for one in checks if one["status"] == "FAIL"],
        "skipped": [[one["id"], one["reason"]] for one in checks if one["status"] == "SKIP"],
        "unexpected_skips": [name for name in skipped if name not in _MAY_BE_SKIPPED],
        "seconds": seconds,
    }


if __name__ == "__main__":
    sys.exit(main())

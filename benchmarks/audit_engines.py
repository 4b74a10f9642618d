"""Audit a real engine with the bundled pair: stock vLLM on a CPU, or Paceline.

    python -m benchmarks.audit_engines --engine stock
    python -m benchmarks.audit_engines --engine paceline
    python -m benchmarks.audit_engines --engine paceline --times 20 --smallest-bias 0.5 \\
        --max-seconds 60 --hold-draft-length 4
    python -m benchmarks.audit_engines … --resume benchmarks/results/audit-engine-paceline-….json.gz

Both engines draft with the bundled draft model: stock vLLM, without plugins, 4 tokens; Paceline as
many as its governor chooses, or always those of `--hold-draft-length`, so that an audit does not
wait for drafts. Each audit is the command `paceline audit`, with a seed of its own,
and its whole report is kept. The result is written after each audit; `--resume` completes one that
Ctrl-C or `--minutes` ended. The exit code is 0 if all audits were made, whatever their verdicts,
130 after Ctrl-C, and else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks.interruption import end_by_sigterm_too, end_incomplete
from benchmarks.results_file import ResultFile, add_resumable, begin_or_resume
from benchmarks.servers import running_server
from paceline.demo import draft_path, target_path
from paceline.foundation.results.environment import Environment, describe_environment

_FEW = 5
"""Reports that fit in a small result."""


def plan_server(engine: str) -> dict[str, Any]:
    """The command and the environment of an engine, for `running_server`."""
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    if engine == "paceline":
        words = ["paceline", "serve", "bundled", "--port", "{port}", "--admin-port", "{admin_port}"]
        return {"command": words, "env": env}
    # No `--admin-port`: stock vLLM has its metrics on the same port.
    speculation = {
        "method": "draft_model",
        "model": str(draft_path()),
        "num_speculative_tokens": 4,
    }
    words = ["vllm", "serve", str(target_path()), "--host", "127.0.0.1", "--port", "{port}"]
    words += ["--served-model-name", "target", "--max-model-len", "1024", "--enforce-eager"]
    words += ["--dtype", "float32", "--distributed-executor-backend", "uni"]
    words += ["--speculative-config", json.dumps(speculation)]
    return {"command": words, "env": {**env, "VLLM_PLUGINS": ""}}


def hold_draft_length(admin_url: str, length: int) -> None:
    """Have every step draft this many tokens. May raise `httpx.HTTPError`."""
    change = {"draft_length": length}
    httpx.patch(f"{admin_url}/admin/governor", json=change, timeout=60).raise_for_status()


def audited(url: str, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One audit as an entry of the result."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "audit.json"
        limits = [str(settings["max_seconds"]), "--smallest-bias", str(settings["smallest_bias"])]
        words = [sys.executable, "-c", "from paceline.cli import main; main()", "audit", url]
        words += ["--max-seconds", *limits, "--seed", str(seed), "--json", str(file)]
        start_s = time.monotonic()
        load = os.getloadavg()[0]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        wall_s = round(time.monotonic() - start_s, 1)
        print(done.stdout, done.stderr, sep="", flush=True)
        report = json.loads(file.read_text()) if file.exists() else None
    return {
        "seed": seed,
        "exit_code": done.returncode,
        "wall_s": wall_s,
        "load_average_1_min": load,
        "output": done.stdout + done.stderr,
        "report": report,
    }


def read_errors(log: Path) -> list[str]:
    """The distinct errors at the ends of tracebacks in an engine's log, at most ten."""
    lines = log.read_text(errors="replace").splitlines()
    found = [match[1] for line in lines if (match := re.search(r"\] (\w+Error: .*)", line))]
    return list(dict.fromkeys(found))[:10]


def summarise(audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Verdicts, and the times and evidence of the audits that have a report."""
    reports = [one["report"] for one in audits if one["report"] is not None]
    return {
        "num_audits": len(audits),
        "exit_codes": [one["exit_code"] for one in audits],
        "verdicts": [one["verdict"] for one in reports],
        "num_lossy": sum(one["verdict"] == "lossy" for one in reports),
        "seconds": [round(one["seconds"], 1) for one in reports],
        "log10_e_values": [round(one["sampled"]["log10_e_value"], 2) for one in reports],
        "smallest_biases": [one["error_rates"]["smallest_bias"] for one in reports],
        "num_drafted_tokens": [one["sampled"]["num_drafted_tokens"] for one in reports],
    }


def main() -> int:
    """Audit as often as ordered; the exit code."""
    arguments = _parser().parse_args()
    if arguments.hold_draft_length is not None and arguments.engine != "paceline":
        _parser().error("--hold-draft-length needs --engine paceline: stock vLLM cannot change it")
    end_by_sigterm_too()
    environment = describe_environment(sys.argv)
    ending = ".json" if arguments.times <= _FEW else ".json.gz"
    name = f"audit-engine-{arguments.engine}-{environment.date_utc[:10]}{ending}"
    result, document = begin_or_resume(
        arguments.results / name,
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        but_for=("times",),
        allow_dirty=arguments.allow_dirty,
    )
    try:
        _audit_all(document, result, environment.commit, 60 * arguments.minutes)
    except KeyboardInterrupt:
        return end_incomplete(result.path)
    print(f"{result.path}: {document['summary']}")
    return 0 if document["is_complete"] else 1


def _audit_all(
    document: dict[str, Any], result: ResultFile, commit: str | None, seconds: float
) -> None:
    """Add the audits that are missing; the result is written after each."""
    settings, audits = document["settings"], document["audits"]
    plan = plan_server(settings["engine"])
    deadline_s = time.monotonic() + seconds
    with (
        tempfile.TemporaryDirectory(prefix="audit-engines-") as folder,
        running_server(settings["engine"], plan, Path(folder)) as server,
    ):
        if settings["held_draft_length"] is not None:
            hold_draft_length(server.admin_url, settings["held_draft_length"])
        while len(audits) < settings["times"] and time.monotonic() < deadline_s:
            one = audited(server.url, settings, len(audits))
            audits.append({"commit": commit, **one})
            document["engine_errors"] = read_errors(server.log)
            document["is_complete"] = len(audits) >= settings["times"]
            document["summary"] = summarise(audits)
            result.write(document)
            if server.process.poll() is not None:
                print("the engine ended")
                break


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": f"audits of a real engine: {arguments.engine}",
        "environment": asdict(environment),
        "settings": {
            "engine": arguments.engine,
            "command": [
                word.replace(str(target_path()), "TARGET").replace(str(draft_path()), "DRAFT")
                for word in plan_server(arguments.engine)["command"]
            ],
            "env": plan_server(arguments.engine)["env"],
            "times": arguments.times,
            "max_seconds": arguments.max_seconds,
            "smallest_bias": arguments.smallest_bias,
            "held_draft_length": arguments.hold_draft_length,
        },
        "is_complete": False,
        "engine_errors": [],
        "summary": {},
        "audits": [],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", choices=["stock", "paceline"], required=True)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--max-seconds", type=float, default=300.0, help="of each audit")
    parser.add_argument("--smallest-bias", type=float, default=0.2)
    parser.add_argument("--hold-draft-length", type=int, metavar="K", help="with Paceline only")
    add_resumable(parser, minutes=60.0, unit="audit")
    return parser


if __name__ == "__main__":
    sys.exit(main())

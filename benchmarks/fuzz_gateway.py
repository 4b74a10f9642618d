"""Fuzz the gateway: no input may cause a 5xx of its own, a silent end, or an engine crash.

    python benchmarks/fuzz_gateway.py --cases 1000000 --json benchmarks/results/fuzz.json
    python benchmarks/fuzz_gateway.py --cases 0 --examples 2000 --schemathesis .clients/fuzz

The gateway runs in its own process in front of a mock vLLM server in another. Cases come from
`fuzz/cases.py`, the same for the same seed; `fuzz/wire.py` judges each answer. With
`--schemathesis FOLDER`, that tool adds valid and invalid cases generated from the OpenAPI
description in docs/openapi.yaml, restricted to the served model. Every fault is reported with the
bytes that caused it. The exit code is 1 if there was a fault. `make fuzz` does both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.fuzz.cases import Case, make_case
from benchmarks.fuzz.wire import Answer, Wire, fault_of
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.gateway import GatewaySettings, Replica, serve_gateway
from paceline.runtime.gateway.api.openapi import render_openapi

MODEL = "mock_vllm"
MAX_MODEL_LEN = 4096
_MAX_FAULTS_KEPT = 50
_ANSWER_TIMEOUT_S = 30.0
"""Far beyond the gateway's own time limits, which are set to 2 s."""


@dataclass
class Tally:
    """Counts of the answers, and the first faults."""

    num_cases: int = 0
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    """By kind of case; status 0 is a connection closed without an answer."""
    num_faults: int = 0
    faults: list[dict[str, object]] = field(default_factory=list)

    def add(self, number: int, case: Case, answer: Answer | None) -> None:
        self.num_cases += 1
        status = 0 if answer is None else answer.status
        self.statuses.setdefault(case.kind, Counter())[status] += 1
        reason = "neither an answer nor an end" if answer is None else fault_of(case, answer)
        if reason is None:
            return
        self.num_faults += 1
        if len(self.faults) < _MAX_FAULTS_KEPT:
            self.faults.append(
                {
                    "case": number,
                    "kind": case.kind,
                    "fault": reason,
                    "sent": case.data[:2000].decode("latin-1"),
                    "answered": answer.body[:500].decode("latin-1") if answer else None,
                }
            )


def main() -> int:
    arguments = _parse_arguments()
    if arguments.serve:
        uvloop.run(_serve(Path(arguments.serve)))
        return 0
    result = (
        ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    )
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "engine.sock"
        mock_vllm = [sys.executable, "-m", "paceline.testing.mock_vllm", "--socket", str(socket)]
        mock_vllm += ["--model", MODEL, "--max-model-len", str(MAX_MODEL_LEN), "--tpot-ms", "0"]
        mock_vllm += ["--prefill-tokens-per-s", "1e9"]
        gateway = [sys.executable, str(Path(__file__)), "--serve", str(socket)]
        with _running(mock_vllm) as engine, _running(gateway, piped=True) as served:
            assert served.stdout is not None
            port, admin_port = map(int, served.stdout.readline().split())
            began_s = time.monotonic()
            tally = uvloop.run(_fuzz(arguments, port))
            lasted_s = time.monotonic() - began_s
            schemathesis = (
                _run_schemathesis(arguments, port, Path(folder)) if arguments.schemathesis else None
            )
            metrics = _read_metrics(admin_port)
            is_engine_alive = engine.poll() is None
            is_gateway_alive = served.poll() is None
    num_internal = metrics.get('paceline_requests_total{outcome="internal_error"}', 0.0)
    report: dict[str, Any] = {
        "environment": asdict(describe_environment(sys.argv)),
        "versions": {"uvicorn": version("uvicorn")},
        "seed": arguments.seed,
        "cases": tally.num_cases,
        "seconds": round(lasted_s, 1),
        "statuses": {kind: dict(sorted(counts.items())) for kind, counts in tally.statuses.items()},
        "faults": tally.num_faults,
        "first_faults": tally.faults,
        "engine_alive": is_engine_alive,
        "gateway_alive": is_gateway_alive,
        "internal_errors": num_internal,
        "in_flight_after": sum(
            value for name, value in metrics.items() if "requests_in_flight" in name
        ),
        "outcomes": {k: v for k, v in metrics.items() if k.startswith("paceline_requests_total")},
        "schemathesis": schemathesis,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False)
    if result:
        result.write(report)
    print(text)
    is_fine = is_engine_alive and is_gateway_alive and not (tally.num_faults or num_internal)
    return int(not (is_fine and (schemathesis is None or schemathesis["exit_code"] == 0)))


async def _fuzz(arguments: argparse.Namespace, port: int) -> Tally:
    tally = Tally()
    numbers = iter(range(arguments.first, arguments.first + arguments.cases))

    async def work() -> None:
        wire = Wire(port, _ANSWER_TIMEOUT_S)
        for number in numbers:
            case = make_case(arguments.seed, number, MODEL)
            try:
                answer: Answer | None = await wire.send(case)
            except TimeoutError:
                answer = None
            tally.add(number, case, answer)
            if tally.num_cases % 50_000 == 0:
                print(f"{tally.num_cases} cases, {tally.num_faults} faults", file=sys.stderr)
        wire.close()

    await asyncio.gather(*(work() for _ in range(arguments.connections)))
    return tally


async def _serve(socket: Path) -> None:
    """Serve until stdin ends. Time limits are short, so that a hanging request shows."""

    class OneReplica:
        def replicas(self) -> Sequence[Replica]:
            return (Replica("r0", str(socket), MODEL, "ready", max_model_len=MAX_MODEL_LEN),)

    settings = GatewaySettings(port=0, admin_port=0, body_timeout_s=2.0)
    async with serve_gateway(settings, OneReplica()) as gateway:
        print(gateway.port, gateway.admin_port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def _running(command: list[str], *, piped: bool = False) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, text=True, stdin=pipe if piped else None, stdout=pipe if piped else None,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _run_schemathesis(arguments: argparse.Namespace, port: int, folder: Path) -> dict[str, object]:
    checks = "not_a_server_error,status_code_conformance,content_type_conformance"
    description = folder / "openapi.json"
    description.write_text(json.dumps(_with_model(render_openapi())))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(description)]
    command += ["--url", f"http://127.0.0.1:{port}", "--mode", "all", "--no-color"]
    command += ["--seed", str(arguments.seed), "--max-examples", str(arguments.examples)]
    command += ["--phases", "examples,coverage,fuzzing"]
    command += ["--checks", f"{checks},response_schema_conformance"]
    environment = {**os.environ, "PYTHONPATH": str(arguments.schemathesis.resolve())}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    counted = re.search(r"(\d[\d,]*) generated", done.stdout)
    return {
        "exit_code": done.returncode,
        "cases": int(counted[1].replace(",", "")) if counted else None,
        "summary": done.stdout[-20_000:],
    }


def _with_model(description: dict[str, Any]) -> dict[str, Any]:
    """Restrict `model` to the served one; otherwise generated requests name unknown ones."""
    for schema in description["components"]["schemas"].values():
        if "model" in schema["properties"]:
            schema["properties"]["model"] = {"enum": [MODEL]}
    description["paths"]["/v1/models/{model}"]["parameters"][0]["schema"] = {"enum": [MODEL, "x"]}
    return description


def _read_metrics(admin_port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("paceline_requests_")]
    return {name: float(value) for name, value in pairs}


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--schemathesis", type=Path, help="folder with Schemathesis installed")
    parser.add_argument("--examples", type=int, default=500, help="per operation, for Schemathesis")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    add_allow_dirty(parser)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

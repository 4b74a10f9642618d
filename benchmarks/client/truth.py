"""Compare every figure of `paceline bench run` with the mock server's own request log.

The load generator runs as a process against `paceline mock-vllm`, under each kind of load. The log
is written by the server and evaluated by code that shares nothing with the load generator. Three
parts: figures (relative differences), dispatch (delay at 500 requests/s), and stalls (the load
generator is stopped for 1 s at random times; each stop must be in the report).

    python benchmarks/client/truth.py --results benchmarks/results

Timings need an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.client.ledger import (
    LedgerRequest,
    ledger_figures,
    read_ledger,
    tokens_between,
)
from benchmarks.client.process import BenchReport, read_report, start_bench
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm import SpawnedMockVllm, spawn_mock_vllm

TARGET_FRACTION = 0.02
SLO = "ttft=1200ms,tpot=60ms"
SLO_MS = {"ttft": 1200.0, "tpot": 60.0}
# Prefill is slow, so that 1 to 4 ms of network and scheduling are below the target. The log has the
# first token; some first tokens are part of a character and have no text, and the client's time to
# first token is then one token (10 ms) longer.
SERVER_FLAGS = (
    *("--model", "m", "--max-model-len", "16384", "--eos-every-tokens", "0"),
    *("--tpot-ms", "10", "--prefill-tokens-per-s", "750", "--max-num-seqs", "64"),
)
STOP_S = 1.0
NUM_STOPS = 5


def figure_loads(folder: Path, seconds: float) -> dict[str, list[str]]:
    """The options of each load by name. No two loads share a prompt: the server caches prefixes."""
    bound = ["--duration", str(seconds)]

    def own(load: str) -> list[str]:
        return ["--prompts", str(write_prompts(folder, load)), *bound]

    return {
        "closed loop": [*own("closed"), "--concurrency", "2"],
        "poisson": [*own("poisson"), "--rate", "0.7"],
        "bursts": [*own("bursts"), "--rate", "0.7", "--burstiness", "0.25"],
        "ramp": [*own("ramp"), "--rate", "0.3", "--ramp-to", "0.9"],
        "bounded": [*own("bounded"), "--rate", "0.7", "--max-in-flight", "1"],
        "trace": ["--trace", str(write_trace(folder, seconds))],
        "sessions": ["--workload", "sessions", *bound, "--concurrency", "2", "--max-tokens", "40"],
        "phases": ["--phases", str(write_phases(folder, seconds))],
    }


def write_prompts(folder: Path, name: str) -> Path:
    """300 prompts of 300 to 1,200 tokens (one per byte), with answers of 16 to 64 tokens."""
    generator = random.Random(name)
    lines = [
        {
            "prompt": f"{name} {n:04d} " + "x" * generator.randint(300, 1200),
            "max_tokens": generator.randint(16, 64),
            "task": ("even", "odd")[n % 2],
        }
        for n in range(300)
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_trace(folder: Path, seconds: float) -> Path:
    """A trace of lengths with random gaps."""
    generator, now_s, lines = random.Random(0), 0.0, []
    while now_s < seconds:
        lines.append({"timestamp": int(now_s * 1e3), "input_length": 600, "output_length": 32})
        now_s += generator.expovariate(0.7)
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_phases(folder: Path, seconds: float) -> Path:
    """Three phases whose throughput differs."""
    loads: list[dict[str, Any]] = [{"concurrency": 1}, {"concurrency": 3}, {"rate_per_s": 0.5}]
    phases = [
        {
            "name": str(number),
            "duration_s": seconds,
            "prompts": write_prompts(folder, f"phase{number}").name,
            "load": load,
        }
        for number, load in enumerate(loads)
    ]
    path = folder / "phases.json"
    path.write_text(json.dumps({"phases": phases}))
    return path


def compare_figures(
    name: str, report: BenchReport, requests: Sequence[LedgerRequest]
) -> dict[str, Any]:
    """Relative differences of all figures of one run from the log."""
    truth = ledger_figures(requests, len(report.records), SLO_MS)
    summary = report.document["summary"]
    measured = {figure: lookup(summary, figure) for figure in truth}
    if name == "bounded":
        # The server's log begins when a request arrives, so it does not have the waits for a slot.
        for figure in list(truth):
            if figure.startswith(("ttft_ms", "e2e_ms", "goodput")):
                del truth[figure], measured[figure]
    phases = compare_phases(report, requests)
    differences = {f: relative(measured[f], truth[f]) for f in truth} | {
        f"phase {row['name']} tokens_per_s": relative(row["measured"], row["truth"])
        for row in phases
    }
    return {
        "load": name,
        "num_requests": summary["num_requests"],
        "valid": report.document["valid"],
        "warnings": [warning["id"] for warning in report.document["warnings"]],
        "measured": measured,
        "truth": truth,
        "phases": phases,
        "differences": differences,
        "worst": max(differences.values()),
        "worst_figure": max(differences, key=lambda figure: differences[figure]),
    }


def compare_phases(report: BenchReport, requests: Sequence[LedgerRequest]) -> list[dict[str, Any]]:
    """Tokens per second of each phase. The clocks differ by the median of arrival minus sending."""
    sent_s = {record["request_id"]: record["sent_s"] for record in report.records}
    offset_s = statistics.median(
        request.begun_s - sent_s[request.request_id]
        for request in requests
        if request.request_id in sent_s
    )
    rows = []
    for phase in report.document["phases"]:
        start_s = offset_s + phase["start_s"]
        tokens = tokens_between(requests, start_s, start_s + phase["duration_s"])
        rows.append(
            {
                "name": phase["name"],
                "measured": phase["summary"]["output_tokens_per_s"],
                "truth": tokens / phase["duration_s"],
            }
        )
    return rows


def lookup(summary: Mapping[str, Any], figure: str) -> float:
    """A figure by its path, such as `ttft_ms.p50`."""
    value: Any = summary
    for key in figure.split("."):
        value = value[key]
    return float(value)


def relative(measured: float, truth: float) -> float:
    """The absolute difference as a fraction of the truth."""
    return abs(measured - truth) / abs(truth) if truth else abs(measured - truth)


def run_figures(server: SpawnedMockVllm, log: Path, seconds: float) -> list[dict[str, Any]]:
    """All loads in turn."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for load, words in figure_loads(folder, seconds).items():
            process = start_bench(server.url, [*words, "--slo", SLO], folder)
            report = read_report(process, folder)
            row = compare_figures(load, report, read_ledger(log, report.run_prefix))
            rows.append(row)
            print(f"{load}: worst {row['worst']:.2%} ({row['worst_figure']})", flush=True)
    return rows


def run_dispatch(rate_per_s: float, seconds: float, repeats: int) -> list[dict[str, Any]]:
    """Dispatch delays of short answers at a high rate."""
    rows = []
    flags = ("--model", "m", "--tpot-ms", "5", "--eos-every-tokens", "0", "--max-num-seqs", "1024")
    with spawn_mock_vllm(*flags) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = folder / "prompts.jsonl"
        prompts.write_text(
            "".join(json.dumps({"prompt": f"{n:05d}", "max_tokens": 4}) + "\n" for n in range(500))
        )
        for _ in range(repeats):
            words = ["--prompts", str(prompts), "--rate", str(rate_per_s)]
            words += ["--duration", str(seconds), "--warmup", "50"]
            report = read_report(start_bench(server.url, words, folder), folder)
            summary, client = report.document["summary"], report.document["client"]
            row = {
                "rate_per_s": rate_per_s,
                "requests_per_s": summary["requests_per_s"],
                "num_requests": summary["num_requests"],
                "num_errors": summary["num_errors"],
                "dispatch_delay_ms": {
                    k: summary["dispatch_delay_ms"][k] for k in ("p50", "p99", "max")
                },
                "event_loop_lag_ms_p99": client["event_loop_lag_ms_p99"],
                "cpu_fraction": client["cpu_fraction"],
                "num_stalls": client["num_stalls"],
                "valid": report.document["valid"],
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def run_stalls(server: SpawnedMockVllm, repeats: int) -> list[dict[str, Any]]:
    """Stop the load generator for 1 s at random times; whether each stop is in the report."""
    rows = []
    generator = random.Random(1)
    loads = (["--rate", "20"], ["--concurrency", "4"], ["--rate", "0.5"])
    for number in range(repeats):
        load = loads[number % len(loads)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = [*load, "--duration", "25", "--max-tokens", "16", "--workload", "json"]
            process = start_bench(server.url, words, folder)
            time.sleep(5.0)  # The load has begun; it lasts 25 s.
            for _ in range(NUM_STOPS):
                time.sleep(generator.uniform(0.5, 2.0))
                process.send_signal(signal.SIGSTOP)
                time.sleep(STOP_S)
                process.send_signal(signal.SIGCONT)
            report = read_report(process, folder)
        stalls = [s["duration_s"] for s in report.document["client"]["stalls"]]
        rows.append(
            {
                "load": " ".join(load),
                "num_stops": NUM_STOPS,
                "num_surfaced": sum(duration_s >= STOP_S - 0.05 for duration_s in stalls),
                "stalls_s": stalls,
                "valid": report.document["valid"],
                "warnings": [warning["id"] for warning in report.document["warnings"]],
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each load")
    parser.add_argument("--rate", type=float, default=500.0, help="of the dispatch test")
    parser.add_argument("--repeats", type=int, default=3, help="of dispatch and stalls")
    parser.add_argument("--parts", nargs="*", default=["figures", "dispatch", "stalls"])
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    name = f"bench-truth-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "bench truth",
        "environment": asdict(environment),
        "target_fraction": TARGET_FRACTION,
        "server_flags": list(SERVER_FLAGS),
        "slo": SLO,
    }
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests.jsonl"
        with spawn_mock_vllm(*SERVER_FLAGS, "--request-log", str(log)) as server:
            if "figures" in arguments.parts:
                document["figures"] = run_figures(server, log, arguments.seconds)
            if "stalls" in arguments.parts:
                document["stalls"] = run_stalls(server, arguments.repeats)
    if "dispatch" in arguments.parts:
        document["dispatch"] = run_dispatch(arguments.rate, 20.0, arguments.repeats)
    result.write(document)
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()

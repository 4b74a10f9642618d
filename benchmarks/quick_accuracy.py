"""`paceline bench quick` against a sweep of the same server that takes ten times as long.

A mock vLLM server prefills one prompt after the other, so the time to first token rises with the
number of chats. The sweep holds every level for over a minute; the truth is the highest level below
all failing ones at which nine of ten requests get their first token within the limit. Then the
command runs several times, as a user does.

    python benchmarks/quick_accuracy.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.load.quick_requests import RequestForm, SessionSender, build_forever
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.workloads import SamplingSettings, load_workload
from paceline.testing.mock_vllm.spawn import spawn_mock_vllm
from paceline.workbench.bench.quick import window as window_module
from paceline.workbench.bench.quick.levels import Window, bracket, tail_s
from paceline.workbench.bench.quick.window import run_window

LIMIT_S = 1.0
MAX_TOKENS = 64
_COMMAND = "from paceline.cli import main; main(prog_name='paceline')"
_FLAGS = ("--model", "m", "--tpot-ms", "10", "--prefill-tokens-per-s", "3000")


async def sweep(url: str, levels: list[int], seconds: float) -> list[Window]:
    """One long window of every level."""
    window_module.MIN_HOLD_S = seconds
    windows = []
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:
        sender = SessionSender(session, URL(url), None, time.perf_counter)
        specs = build_forever(
            load_workload("mixed").prompts(1),
            SamplingSettings("m", 0.0, None, MAX_TOKENS, 1, {}),
            RequestForm(as_chat=True, with_salt=True),
        )
        for level in levels:
            windows.append(await run_window(sender, specs, level, None, LIMIT_S, time.perf_counter))
            print(f"{level}: p90 {tail_s(windows[-1].ttfts_s):.3f} s", flush=True)
    return windows


def ask_quickly(url: str, seed: int, folder: Path) -> dict[str, Any]:
    """What one run of the command reports."""
    report = folder / "quick.json"
    words = ["bench", "quick", url, "--json", str(report), "--seed", str(seed)]
    subprocess.run(
        [sys.executable, "-c", _COMMAND, *words, "--max-tokens", str(MAX_TOKENS)],
        check=True,
        capture_output=True,
    )
    document = json.loads(report.read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "max_concurrency": document["max_concurrency"],
        "duration_s": round(document["duration_s"], 1),
        "speculation_gain": document["speculation_gain"],
        "reason": document["speculation"]["reason"],
        "levels": document["levels"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levels", type=int, nargs="+", default=list(range(9, 17)))
    parser.add_argument("--seconds", type=float, default=75.0, help="of each level of the sweep")
    parser.add_argument("--runs", type=int, default=10, help="of the command")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        arguments.results / f"quick-accuracy-{today}.json", allow_dirty=arguments.allow_dirty
    )
    environment = asdict(describe_environment(sys.argv))
    with tempfile.TemporaryDirectory() as folder, spawn_mock_vllm(*_FLAGS) as server:
        windows = asyncio.run(sweep(server.url, arguments.levels, arguments.seconds))
        truth, failing = bracket(windows, LIMIT_S)
        document: dict[str, Any] = {
            "schema_version": 1,
            "kind": "quick accuracy",
            "environment": environment,
            "settings": {
                "mock_vllm": list(_FLAGS),
                "limit_s": LIMIT_S,
                "max_tokens": MAX_TOKENS,
                "sweep_seconds_per_level": arguments.seconds,
            },
            "sweep": [
                {
                    "concurrency": w.level,
                    "num_requests": len(w.ttfts_s),
                    "ttft_p90_ms": round(1e3 * tail_s(w.ttfts_s), 1),
                }
                for w in windows
            ],
            "truth": {"holds": truth, "fails": failing},
            "runs": [],
        }
        for seed in range(arguments.runs):
            run = ask_quickly(server.url, seed, Path(folder))
            held = run["max_concurrency"]
            run["covers_truth"] = held["low"] <= truth and (
                held["high"] is None or truth <= held["high"]
            )
            document["runs"].append(run)
            result.write(document)
            print(f"{held} in {run['duration_s']} s, truth {truth}", flush=True)
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()

"""Compare `plan replay` with held-out phases of a real engine.

    python benchmarks/planner/check_replay_real.py --results benchmarks/results

`paceline serve` runs the bundled pair. A phase of Poisson arrivals under `goodput` is recorded.
Then the governor is held at several draft lengths, each under several closed loops, in random
order. The prompts of the phases have other seeds. Predicted and measured are output tokens/s of
every held-out phase, which are as long as the replay's runs. With the defaults this takes five
minutes.

The client measures through the gateway, whose time the replay leaves out. The exit code is 1 where
the error is above 5 % in the median or above 10 % in more than one of ten, or the interval covers
fewer than nine of ten.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.planner.check_replay import summarise
from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import Server, running_server
from paceline.demo import draft_path, target_path
from paceline.foundation.load.config import RunConfig
from paceline.foundation.recording.reading import Recording, read_recording
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.servers.admin_request import send_to_admin
from paceline.runtime.policy_registry import create_policy
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.progress import terminal_progress
from paceline.workbench.plan.replay.prediction import Setting, predict
from paceline.workbench.plan.replay.values import ConstantConcurrency

KV_CACHE_BYTES = 512 * 1024**2
MAX_TOKENS = 96
NUM_WARMUP = 8


def main() -> None:
    """Record, measure, predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=target_path())
    parser.add_argument("--draft", type=Path, default=draft_path())
    parser.add_argument("--name", default="bundled", help="of the pair, in the result's name")
    parser.add_argument("--rate", type=float, default=3.0, help="recorded requests per second")
    parser.add_argument("--recorded-seconds", type=float, default=90.0)
    parser.add_argument("--vary-draft-length", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seconds", type=float, default=25.0, help="of a held-out phase")
    parser.add_argument("--lengths", type=int, nargs="+", default=[0, 2, 4])
    parser.add_argument("--loads", type=int, nargs="+", default=[4, 12])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    name = f"plan-replay-real-{arguments.name}-{environment.date_utc[:10]}.json"
    file = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    serve = ["paceline", "serve", str(arguments.model), "--draft", str(arguments.draft)]
    serve += ["--port", "{port}", "--admin-port", "{admin_port}"]
    plan = {"command": serve, "env": {"PACELINE_ENGINE__KV_CACHE_BYTES": str(KV_CACHE_BYTES)}}
    folder = Path(tempfile.mkdtemp(prefix="replay-real-"))
    phases = [(n, length) for n in arguments.loads for length in arguments.lengths]
    random.Random(arguments.seed).shuffle(phases)
    with running_server("engine", plan, folder) as server:
        recording = record(server, folder, arguments)
        measured = [
            held_out(server, num_requests, length, 1 + number, arguments)
            for number, (num_requests, length) in enumerate(phases)
        ]
    cells = []
    for (num_requests, length), truth in zip(phases, measured, strict=True):
        cell = compare(recording, num_requests, length, truth, arguments)
        print(cell, flush=True)
        cells.append(cell)
    summary = summarise(cells)
    print(summary, f"recording and logs: {folder}")
    settings = {key: str(value) for key, value in vars(arguments).items()}
    file.write(
        {
            "schema_version": 1,
            "kind": "plan replay of a real engine",
            "environment": asdict(environment),
            "settings": settings,
            "recorded": {
                "seconds": recording.seconds,
                "num_requests": len(recording.requests),
                "output_tokens": recording.output_tokens,
            },
            "summary": summary,
            "cells": cells,
        }
    )
    sys.exit(not summary["passed"])


def record(server: Server, folder: Path, arguments: argparse.Namespace) -> Recording:
    """Record a phase of Poisson arrivals under `goodput`."""
    _admin(server, "PATCH", "/admin/governor", {"policy": "goodput"})
    _load(server, arguments, {"concurrency": 4, "num_requests": 2 * NUM_WARMUP, "seed": 10_000})
    start = {"action": "start", "vary_draft_length": arguments.vary_draft_length}
    _admin(server, "POST", "/admin/recording", start)
    _load(
        server,
        arguments,
        {
            "concurrency": None,
            "rate_per_s": arguments.rate,
            "duration_s": arguments.recorded_seconds,
            "seed": arguments.seed,
        },
    )
    state = _admin(server, "POST", "/admin/recording", {"action": "stop"})
    (replica,) = state["replicas"].values()
    path = folder / "recording.jsonl"
    shutil.copy(replica["file"], path)
    _admin(server, "DELETE", "/admin/recording", None)
    return read_recording(path)


def held_out(
    server: Server, num_requests: int, length: int, number: int, arguments: argparse.Namespace
) -> float:
    """Output tokens/s at a draft length that is held, with prompts of their own."""
    _admin(server, "PATCH", "/admin/governor", {"draft_length": length})
    return _load(
        server,
        arguments,
        {
            "concurrency": num_requests,
            "duration_s": arguments.seconds,
            "num_warmup": NUM_WARMUP,
            "seed": arguments.seed + number,
        },
    )


def compare(
    recording: Recording,
    num_requests: int,
    length: int,
    truth: float,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """The prediction of a held-out phase beside its measurement."""
    setting = Setting(
        make_policy=lambda *_: create_policy("fixed", max_draft_length=length),
        max_draft_length=length,
        load=ConstantConcurrency(num_requests),
        seconds=arguments.seconds,
        seed=arguments.seed,
    )
    prediction = predict(recording, setting)
    found = prediction.figures["output_tokens_per_s"]
    assert found is not None
    return {
        "machine": arguments.name,
        "seed": arguments.seed,
        "num_requests": num_requests,
        "draft_length": length,
        "truth_tokens_per_s": round(truth, 3),
        "predicted": found.value,
        "low": found.low,
        "high": found.high,
        "error": round(found.value / truth - 1.0, 5),
        "covered": found.low <= truth <= found.high,
        "warnings": list(prediction.warnings),
    }


def _load(server: Server, arguments: argparse.Namespace, settings: Mapping[str, Any]) -> float:
    """Apply a load; its output tokens/s."""
    config = RunConfig(url=server.url, max_tokens=MAX_TOKENS, **settings)
    with terminal_progress() as progress:
        result = asyncio.run(measure(config, None, sys.argv, progress))
    rate = result.summary.output_tokens_per_s
    if result.summary.num_errors or rate is None:
        raise RuntimeError(f"{result.summary.num_errors} requests failed under {settings}")
    return rate


def _admin(
    server: Server, method: str, path: str, body: Mapping[str, object] | None
) -> dict[str, Any]:
    return send_to_admin(method, path, body, admin_url=server.admin_url, admin_key=None)


if __name__ == "__main__":
    main()

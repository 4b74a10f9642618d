"""Compare the single-stream rate through `paceline serve` with the engine's own rate.

Two arms take turns with the same questions, greedy, one request at a time, without speculation:
`vllm.LLM` in its own process with the layout that Paceline would choose, and `paceline serve` with
a streaming client. Both stay up; only one is under load. The ratio is served / in-process within
each repeat. The twin is the bundled 11M target padded with layers that add nothing (see
`demo_recipe.deepen`): it has the cost of about 120M parameters and the outputs of 11M.

    python benchmarks/served_rate.py --model FOLDER --name twin
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import running_servers
from paceline.demo import heldout_path, target_path
from paceline.foundation.load.config import RunConfig
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.launch.environment import ENGINE_CORE_PREFIX
from paceline.runtime.engine.launch.hardware import read_hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.progress import terminal_progress

KV_CACHE_BYTES = 512 * 1024**2
MAX_TOKENS = 96


def questions(repeat: int, count: int) -> list[dict[str, Any]]:
    """Held-out questions of this repeat; no two repeats share a question."""
    chosen = [q for q in json.loads(heldout_path().read_text()) if q["task"] == "complete"]
    return chosen[repeat * count : (repeat + 1) * count]


def engine_process(model: Path, args: list[str]) -> None:
    """The in-process arm: reads a line of questions, prints the tokens and seconds."""
    from vllm import LLM, SamplingParams
    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    chosen = EngineArgs.from_cli_args(parser.parse_args(["--model", str(model), *args]))
    engine = LLM(**{k: v for k, v in vars(chosen).items() if v != getattr(EngineArgs, k, None)})
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS)
    print("ready", flush=True)
    for line in sys.stdin:
        num_tokens, started_s = 0, time.perf_counter()
        for question in json.loads(line):
            output = engine.chat([question["messages"]], params, use_tqdm=False)[0]
            num_tokens += len(output.outputs[0].token_ids)
        seconds = time.perf_counter() - started_s
        print(json.dumps({"tokens": num_tokens, "seconds": seconds}), flush=True)


def ask(process: subprocess.Popen[str], batch: list[dict[str, Any]]) -> dict[str, float]:
    """Send a batch of questions to the engine process; its tokens and seconds."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(batch) + "\n")
    process.stdin.flush()
    return dict(json.loads(_next_line(process, "{")))


def _next_line(process: subprocess.Popen[str], beginning: str) -> str:
    """The next line with this beginning; vLLM prints lines of its own in between."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(beginning):
            return line
    raise RuntimeError(f"the engine ended with {process.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, default=target_path())
    parser.add_argument("--name", default="bundled")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--num-questions", type=int, default=8, help="per repeat and arm")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    name = f"served-rate-{arguments.name}-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    layout = choose_layout(read_hardware(), LayoutSettings(kv_cache_bytes=KV_CACHE_BYTES))
    engine_args = [*layout.vllm_args, "--max-model-len", "2048"]
    # This process computes by itself, so it gets the core binding directly.
    own_environment = {k.removeprefix(ENGINE_CORE_PREFIX): v for k, v in layout.environment.items()}
    engine = subprocess.Popen(
        [sys.executable, __file__, "--engine", str(arguments.model), *engine_args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **own_environment, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
    )
    serve = ["paceline", "serve", str(arguments.model), "--draft", "none"]
    serve += ["--port", "{port}", "--admin-port", "{admin_port}"]
    served_environment = {"PACELINE_ENGINE__KV_CACHE_BYTES": str(KV_CACHE_BYTES)}
    plan = {"servers": {"served": {"command": serve, "env": served_environment}}}
    logs = Path(tempfile.mkdtemp(prefix="served-rate-"))
    runs: list[dict[str, Any]] = []
    try:
        _next_line(engine, "ready")
        with running_servers(plan, logs) as servers:
            for repeat in range(-1, arguments.repeats):  # repeat -1 warms up both arms
                batch = questions(repeat % 12, arguments.num_questions)
                run = {
                    "repeat": repeat,
                    "in_process": _rate(ask(engine, batch)),
                    "served": _measure_served(servers["served"].url, batch, logs),
                }
                run["ratio"] = run["served"] / run["in_process"]
                print({k: round(v, 3) for k, v in run.items()}, flush=True)
                if repeat >= 0:
                    runs.append(run)
    finally:
        engine.terminate()
        engine.wait()
    ratios = [run["ratio"] for run in runs]
    document = {
        "schema_version": 1,
        "kind": "served rate",
        "model": arguments.name,
        "environment": asdict(environment),
        "layout": {"dtype": layout.dtype, "environment": own_environment},
        "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "runs": runs,
    }
    result.write(document)
    print(document["ratio"], f"written: {result.path}")


def _rate(answer: dict[str, float]) -> float:
    return answer["tokens"] / answer["seconds"]


def _measure_served(url: str, batch: list[dict[str, Any]], folder: Path) -> float:
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({**q, "max_tokens": MAX_TOKENS}) + "\n" for q in batch))
    config = RunConfig(
        url=url, prompts_file=str(prompts), temperature=0.0, num_requests=len(batch), concurrency=1
    )
    with terminal_progress() as progress:
        result = asyncio.run(measure(config, None, sys.argv, progress))
    if result.summary.num_errors or result.summary.output_tokens_per_s is None:
        raise RuntimeError(f"{result.summary.num_errors} requests failed")
    return result.summary.output_tokens_per_s


if __name__ == "__main__":
    if sys.argv[1:2] == ["--engine"]:
        engine_process(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()

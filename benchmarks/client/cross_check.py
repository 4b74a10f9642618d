"""Measure one server with `paceline bench run`, `vllm bench serve` and GuideLLM, in turn.

All send the same number of requests with the same lengths in a closed loop. Each run has prompts of
its own, so that none is in the server's prefix cache. The server is a real one: vLLM with the model
of `--target`, by default the bundled target, without speculation. The order of the tools changes
from repeat to repeat. GuideLLM is measured where its program is given; it needs an environment of
its own. Each run is also seen on the wire, by `witness.py` between the tool and the server, and a
ratio of two tools is that of their figures relative to their witness, so the machine's changes from
run to run cancel. `vllm bench serve` needs pandas, which is not among our requirements:

    python3.11 -m venv .clients/guidellm && .clients/guidellm/bin/pip install guidellm==0.8.1
    pip install --no-deps --target .clients/pandas pandas==3.1.1 python-dateutil six
    PYTHONPATH=.clients/pandas python benchmarks/client/cross_check.py \\
        --guidellm .clients/guidellm/bin/guidellm

The mock server is not measured with GuideLLM: its answers have the character U+2028, at which
GuideLLM 0.8.1 splits lines.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.client.tools import Load, ServedModel, Tool, guidellm_tool, run_paceline, run_vllm
from benchmarks.client.witness import read_seen, witness_figures, witness_in_front
from benchmarks.headline.arms import ModelFolders, parse_arm, server_plan
from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import running_server
from paceline.demo import target_path
from paceline.foundation.results.environment import describe_environment

_OURS = "paceline"
_KV_CACHE_BYTES = 1 << 30


def write_requests(folder: Path, run: str, num_requests: int, max_prompt_chars: int) -> Path:
    """Requests in the format of `paceline bench run`, equal for all runs but for the beginning of
    each prompt."""
    generator = random.Random(0)
    path = folder / f"{run}.jsonl"
    with path.open("w") as file:
        for number in range(num_requests):
            words = "words " * (generator.randint(max_prompt_chars // 4, max_prompt_chars) // 6)
            tokens = generator.randint(16, 64)
            request = {"prompt": f"{run} {number:04d} {words}", "max_tokens": tokens}
            file.write(json.dumps({**request, "ignore_eos": True}) + "\n")
    return path


def main() -> None:
    """Run the command."""
    arguments = _parser().parse_args()
    environment = describe_environment(sys.argv)
    name = f"bench-cross-check-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    tools: dict[str, Tool] = {_OURS: run_paceline, "vllm": run_vllm}
    if arguments.guidellm is not None:
        tools["guidellm"] = guidellm_tool(arguments.guidellm.absolute())
    target = str(arguments.target or target_path())
    plan = server_plan(parse_arm("vllm+layout"), ModelFolders(target, ""), _KV_CACHE_BYTES)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with (
            running_server("vllm", plan, folder) as server,
            witness_in_front(server, folder) as (url, seen),
        ):
            runs = _measure(ServedModel(url, target, target), tools, folder, seen, arguments)
    document = {
        "schema_version": 3,
        "kind": "bench cross-check",
        "environment": asdict(environment),
        "server": plan,
        "settings": {
            key: getattr(arguments, key)
            for key in ("num_requests", "max_prompt_chars", "concurrency", "repeats")
        },
        "ratios": {other: _ratios(runs, other) for other in tools if other != _OURS},
        "runs": runs,
    }
    result.write(document)
    print(f"written: {result.path}")


def _measure(
    model: ServedModel,
    tools: dict[str, Tool],
    folder: Path,
    seen: Path,
    arguments: argparse.Namespace,
) -> list[dict[str, Any]]:
    runs = []
    names = list(tools)
    for repeat in range(-1, arguments.repeats):  # -1: a warm-up, which is dropped
        run: dict[str, Any] = {"repeat": repeat}
        for name in names:
            requests = write_requests(
                folder, f"{name}{repeat}", arguments.num_requests, arguments.max_prompt_chars
            )
            load = Load(requests, arguments.num_requests, arguments.concurrency)
            began_s = time.time()
            figures = tools[name](model, load)
            witnessed = witness_figures(read_seen(seen, began_s)[-arguments.num_requests :])
            run[name] = {"figures": figures, "witness": witnessed}
        names = [*names[1:], names[0]]
        if repeat < 0:
            continue
        runs.append(run)
        for name in tools:
            shown = {
                figure: f"{_against_witness(run[name], figure) - 1:+.2%}"
                for figure in run[name]["figures"]
            }
            print(f"{repeat}: {name} against the wire: {shown}", flush=True)
    return runs


def _against_witness(found: dict[str, dict[str, float]], figure: str) -> float:
    return found["figures"][figure] / found["witness"][figure]


def _ratios(runs: list[dict[str, Any]], other: str) -> dict[str, dict[str, float]]:
    """Our figure divided by the other tool's, both relative to the wire, over the repeats."""
    found = {}
    for figure in runs[0][other]["figures"]:
        ratios = [
            _against_witness(run[_OURS], figure) / _against_witness(run[other], figure)
            for run in runs
        ]
        found[figure] = {
            "median": statistics.median(ratios),
            "min": min(ratios),
            "max": max(ratios),
        }
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", type=Path, help="folder of the model; the bundled target")
    parser.add_argument("--guidellm", type=Path, metavar="FILE", help="GuideLLM's program")
    parser.add_argument("--num-requests", type=int, default=100)
    parser.add_argument("--max-prompt-chars", type=int, default=1200)
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    main()

"""Experiment 4: what the gateway adds in front of a GPU server, at 256 to 1,024 streams.

Two servers share the GPU and take turns: `vllm serve` alone, and `paceline serve` with the same
model and no speculation. The bundled target is served: its engine is fast, so the gateway has the
most to do. `benchmarks/paired.py` runs the plan that is made here.

    python benchmarks/gpu/gateway_streams.py --results benchmarks/results
    python benchmarks/gpu/gateway_streams.py --dry-run

With `--dry-run` both servers are mock vLLM servers, with eight streams.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.paired import run_plan
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline import demo

STREAMS = (256, 512, 1024)
_SHARE = ("--gpu-memory-utilization", "0.4", "--max-num-seqs", "1024")
_NAME = "paceline-demo"


def make_plan(*, is_dry_run: bool, repeats: int) -> dict[str, Any]:
    """The plan for `benchmarks.paired.run_plan`."""
    model = str(demo.target_path())
    mock = ["paceline", "mock-vllm", "--port", "{port}"]
    alone = ["vllm", "serve", model, "--served-model-name", _NAME, "--port", "{port}", *_SHARE]
    behind = ["paceline", "serve", "--draft", "none"]
    behind += ["--port", "{port}", "--admin-port", "{admin_port}", "--", *_SHARE]
    streams = (8,) if is_dry_run else STREAMS
    return {
        "name": "gpu-gateway-streams",
        "repeats": repeats,
        "servers": {
            "engine": {"command": mock if is_dry_run else alone},
            "gateway": {"command": mock if is_dry_run else behind},
        },
        "arms": [
            {"name": "engine alone", "server": "engine"},
            {"name": "gateway", "server": "gateway"},
        ],
        "loads": [
            {
                "name": f"{number} streams",
                "workload": "predictable",
                "concurrency": number,
                "num_requests": 2 * number,
                "num_warmup": 0 if is_dry_run else number,
            }
            for number in streams
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="mock servers, eight streams")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    add_allow_dirty(parser)
    options = parser.parse_args(arguments)
    logs = Path(tempfile.mkdtemp(prefix="gateway-streams-"))
    print(f"logs of the servers: {logs}")
    if options.dry_run:
        document = run_plan(make_plan(is_dry_run=True, repeats=1), logs, lambda document: None)
    else:
        name = f"gpu-gateway-streams-{time.strftime('%Y-%m-%d', time.gmtime())}.json.gz"
        result = ResultFile(options.results / name, allow_dirty=options.allow_dirty)
        plan = make_plan(is_dry_run=False, repeats=options.repeats)
        document = run_plan(plan, logs, result.write)
    for item in document["comparisons"]:
        print(f"{item['load']}: {item['arm']}, {item['figure']}: {item['median']:.3f}")


if __name__ == "__main__":
    main()

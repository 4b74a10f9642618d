"""Scripts of `paceline bench export`: the locust script is run, the k6 script type-checked.

A mock vLLM server with known times answers; `paceline bench run` with the same options is run for
comparison. locust and TypeScript come from places of their own:

    python3 -m venv /tmp/locust && /tmp/locust/bin/pip install locust
    npm install --prefix /tmp/k6 @types/k6 typescript
    python benchmarks/exported_scripts.py --locust /tmp/locust/bin/locust --node-modules \\
        /tmp/k6/node_modules --results benchmarks/results
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
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm.spawn import spawn_mock_vllm

LOADS = (("--concurrency", "4"), ("--rate", "8"))
NUM_REQUESTS = 120
MAX_TOKENS = 32
_COMMAND = "from paceline.cli import main; main(prog_name='paceline')"
_FLAGS = ("--tpot-ms", "10", "--eos-every-tokens", "0", "--prefill-tokens-per-s", "100000")


def paceline(*words: str) -> None:
    subprocess.run([sys.executable, "-c", _COMMAND, *words], check=True, capture_output=True)


def run_locust(locust: Path, script: Path) -> dict[str, Any]:
    """The last line of the script's output: requests, tokens and the rate."""
    done = subprocess.run(
        [str(locust), "-f", str(script), "--headless", "--only-summary"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"locust printed no summary:\n{done.stdout}{done.stderr}")
    summary: dict[str, Any] = json.loads(found[0])
    return summary


def check_types(node_modules: Path, script: Path) -> str:
    """What the strict type check of the k6 script prints; empty if it finds nothing."""
    link = script.parent / "node_modules"
    if not link.exists():
        os.symlink(node_modules.resolve(), link)
    done = subprocess.run(
        [
            *(str(link / ".bin" / "tsc"), "--allowJs", "--checkJs", "--noEmit", "--strict"),
            *("--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler"),
            *("--types", "k6", script.name),
        ],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--locust", type=Path, required=True, help="the command")
    parser.add_argument(
        "--node-modules", type=Path, required=True, help="with TypeScript, @types/k6"
    )
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        arguments.results / f"exported-scripts-{today}.json", allow_dirty=arguments.allow_dirty
    )
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "exported scripts",
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {"num_requests": NUM_REQUESTS, "max_tokens": MAX_TOKENS},
        "runs": [],
    }
    with tempfile.TemporaryDirectory() as name, spawn_mock_vllm(*_FLAGS) as server:
        folder = Path(name)
        for load in LOADS:
            bounds = ("--num-requests", str(NUM_REQUESTS), "--max-tokens", str(MAX_TOKENS), *load)
            scripts = {"locust": folder / "load_test.py", "k6": folder / "load_test.js"}
            for tool, script in scripts.items():
                paceline(
                    *("bench", "export", server.url, "--tool", tool, "--out", str(script)), *bounds
                )
            paceline(
                *("bench", "run", server.url, "--json", str(folder / "run.json"), *bounds),
                *("--max-dispatch-delay-ms", "1000"),  # the tools are compared on a busy machine
            )
            summary = json.loads((folder / "run.json").read_text(encoding="utf-8"))["summary"]
            run = {
                "load": " ".join(load),
                "locust": run_locust(arguments.locust, scripts["locust"]),
                "bench_run": {
                    key: summary[key]
                    for key in ("num_requests", "output_tokens", "output_tokens_per_s", "window_s")
                },
                "k6_type_errors": check_types(arguments.node_modules, scripts["k6"]),
            }
            document["runs"].append(run)
            print(json.dumps(run), flush=True)
    result.write(document)
    print(f"written: {result.path}")
    if any(run["k6_type_errors"] for run in document["runs"]):
        sys.exit("Error: the k6 script has type errors.")


if __name__ == "__main__":
    main()

"""Measure the time from a fresh clone to a server that answers, and the time of later starts.

The script clones this repository, runs `make serve` as the first command in the clone, asks one
question of every task, stops the server, and starts it again. Both times count from the command to
the line that says the server is serving. The clone has no environment, so the first time includes
the installation. Packages come from pip's cache if pip has one; `--no-pip-cache` measures without.

    python benchmarks/start_time.py --json benchmarks/results/start-time.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment

ROOT = Path(__file__).resolve().parents[1]
SIGNATURE = "def connect(host, port=8000, *, timeout=None):"
FUNCTION = "def area(width, height):\n    size = width * height\n    return size"
QUESTIONS = {
    "json": f"Turn this signature into JSON:\n\n{SIGNATURE}",
    "rename": f"Rename `size` to `result` throughout:\n\n{FUNCTION}",
    "docstring": f"Write a docstring for this function:\n\n{FUNCTION}",
    "complete": 'Complete this function:\n\ndef is_empty(self):\n    """Return True if empty."""',
}


def serve_once(clone: Path, *, ask: bool, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds until the server is ready; with `ask`, also its answers."""
    started_s = time.monotonic()
    process = subprocess.Popen(
        ["make", "serve", "ARGS=--port 0 --admin-port 0"],
        cwd=clone,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"serving paceline-demo on (\S+)", line):
                break
        else:
            raise RuntimeError(f"make serve ended with {process.wait()} before it served")
        result: dict[str, Any] = {"seconds_until_serving": time.monotonic() - started_s}
        if ask:
            result["answers"] = {
                task: _ask(found[1], question) for task, question in QUESTIONS.items()
            }
        return result
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ask(url: str, question: str) -> dict[str, str]:
    body = {
        "model": "paceline-demo",
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 200,
    }
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
    return {"question": question, "answer": answer["choices"][0]["message"]["content"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="starts after the first one")
    parser.add_argument("--no-pip-cache", action="store_true")
    parser.add_argument("--json", type=Path)
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    result = (
        ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    )
    environment = (
        {**os.environ, "PIP_NO_CACHE_DIR": "1"} if arguments.no_pip_cache else {**os.environ}
    )
    environment.pop("VIRTUAL_ENV", None)
    with tempfile.TemporaryDirectory(prefix="paceline-start-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        first = serve_once(clone, ask=True, environment=environment)
        print(json.dumps(first, indent=1), flush=True)
        again = []
        for _ in range(arguments.repeats):
            again.append(serve_once(clone, ask=False, environment=environment))
            print(again[-1], flush=True)
    if result:
        document = {
            "schema_version": 1,
            "kind": "start time",
            "environment": asdict(describe_environment(sys.argv)),
            "pip_cache": not arguments.no_pip_cache,
            "first": first,
            "again": again,
        }
        result.write(document)


if __name__ == "__main__":
    main()

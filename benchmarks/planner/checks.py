"""What the checks of the planner against vLLM share: options, result file, run of the engine."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from paceline.foundation.results.environment import describe_environment

_CHILD = Path(__file__).with_name("loaded_model.py")


@dataclass(frozen=True, slots=True)
class RawResult:
    """The rows so far, and the file that they go to; None for no file."""

    rows: list[dict[str, Any]]
    file: ResultFile | None


def check_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of every check; `description` is the docstring of the script."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--twin", type=Path, help="folder of the twin; left out without it")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    parser.add_argument("--add-to", type=Path, help="raw result of an earlier run, to complete")
    add_allow_dirty(parser)
    return parser


def open_result(arguments: argparse.Namespace, name: str, key: str) -> RawResult:
    """The file `NAME-DATE.json`, or the one to complete with its rows, listed under `key`."""
    if arguments.add_to is not None:
        file = ResultFile.resume(arguments.add_to, allow_dirty=arguments.allow_dirty)
        return RawResult(read_result(arguments.add_to)[key], file)
    if arguments.results is None:
        return RawResult([], None)
    date = describe_environment(sys.argv).date_utc[:10]
    path = arguments.results / f"{name}-{date}.json"
    return RawResult([], ResultFile(path, allow_dirty=arguments.allow_dirty))


def load_in_child(
    request: Mapping[str, Any],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> dict[str, Any]:
    """The answer of `loaded_model.py` to a request, or `{"failed": reason}`."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        answer, log = Path(folder, "answer.json"), Path(folder, "vllm.log")
        with log.open("wb") as output:
            try:
                subprocess.run(
                    [sys.executable, str(_CHILD), json.dumps(request), str(answer)],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"failed": f"no answer within {timeout_s} s"}
        if answer.exists():
            found: dict[str, Any] = json.loads(answer.read_text())
            return found
        lines = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
        return {"failed": (lines or ["no error in the log"])[-1][-300:]}

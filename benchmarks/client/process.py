"""Run `paceline bench run` as a process, as a user does, and read its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RUN_LIMIT_S = 300
_PACELINE = "from paceline.cli import main; main()"


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What one run wrote."""

    document: dict[str, Any]
    records: list[dict[str, Any]]
    exit_code: int

    @property
    def run_prefix(self) -> str:
        """How all request ids of the run begin: bench-RUN-."""
        first: str = self.records[0]["request_id"]
        return "-".join(first.split("-")[:2]) + "-"


def start_bench(url: str, words: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run that writes its report into `folder`."""
    command = [sys.executable, "-c", _PACELINE, "bench", "run", url, *words]
    command += ["--json", str(folder / "report.json"), "--records", str(folder / "records.jsonl")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )


def read_report(process: subprocess.Popen[bytes], folder: Path) -> BenchReport:
    """Await the end of a run; RuntimeError if it wrote no report."""
    _, errors = process.communicate(timeout=_RUN_LIMIT_S)
    report = folder / "report.json"
    if not report.exists():
        raise RuntimeError(f"the run ended with {process.returncode}: {errors.decode()}")
    lines = (folder / "records.jsonl").read_text().splitlines()
    return BenchReport(
        json.loads(report.read_text()), [json.loads(line) for line in lines], process.returncode
    )

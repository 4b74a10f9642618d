"""Scripts start as their docstrings say, from the root of a checkout and with no other setting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "command",
    [
        "-m benchmarks.audit_engines",
        "-m benchmarks.audit_false_alarms",
        "-m benchmarks.validate_bundled",
        "-m benchmarks.validate_faults",
        "benchmarks/chaos_real.py",
        "benchmarks/distributed.py",
        "benchmarks/doctor_silence.py",
        "benchmarks/draft_swap.py",
        "benchmarks/draft_training.py",
    ],
)
def test_a_script_starts_and_can_complete_an_earlier_result(command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command.split(), "--help"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--resume FILE" in done.stdout

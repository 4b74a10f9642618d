"""Run promtool on a file; an error has its output."""

from __future__ import annotations

import subprocess
from pathlib import Path

from prometheus_programs import find_program


def run_promtool(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [find_program("promtool"), *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

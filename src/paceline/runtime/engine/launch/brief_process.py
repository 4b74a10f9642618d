"""Run a command that answers within a second, or else count as without an answer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_TIMEOUT_S = 10
"""Chosen empirically: nvidia-smi and the driver answer within a second, and a driver that hangs
must not keep a server from starting."""


def run_briefly(command: Sequence[str]) -> tuple[int | None, str]:
    """Exit code and output; None and nothing if it cannot run, or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return done.returncode, done.stdout

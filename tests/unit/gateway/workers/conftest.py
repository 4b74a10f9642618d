"""Settings of a gateway with two workers, and its worker processes."""

from __future__ import annotations

from dataclasses import replace

import psutil

from unit.gateway.conftest import SETTINGS

WORKERS = replace(SETTINGS, workers=2, drain_timeout_s=5.0)


def workers() -> list[psutil.Process]:
    """The worker processes that this test's gateway has started."""
    return [child for child in psutil.Process().children() if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "gateway/workers/__main__.py" in " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return False  # it has just ended

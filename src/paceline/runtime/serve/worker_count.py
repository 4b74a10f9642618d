"""Choose the number of processes that serve the data port."""

from __future__ import annotations

from paceline.runtime.config import Settings
from paceline.runtime.engine.launch.hardware import Hardware

_CORES_PER_WORKER = 8
"""Chosen empirically: vLLM's own processes need cores too, two or more per engine on a GPU."""
_MAX_WORKERS = 4
"""Chosen empirically: one process passes on some thousand chunks per second, and engines that send
more than four times that are better served by several gateways."""


def choose_num_workers(settings: Settings, hardware: Hardware) -> tuple[int, str]:
    """The number of processes, and the reason for it."""
    configured = settings.server.workers
    if configured != "auto":
        return configured, f"server.workers is {configured}"
    if hardware.device == "cpu" and settings.engine.replicas:
        return 1, "one process serves the data port: the engines need the cores"
    num_cores = hardware.num_cores
    if num_cores < _CORES_PER_WORKER:
        return 1, f"one process serves the data port: the machine has {num_cores} cores"
    number = min(_MAX_WORKERS, num_cores // _CORES_PER_WORKER)
    return number, (
        f"processes that serve the data port: {number} (one for every {_CORES_PER_WORKER} of "
        f"{num_cores} cores, at most {_MAX_WORKERS})"
    )

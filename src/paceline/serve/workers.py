"""How many processes are to serve the data port?"""

from __future__ import annotations

from paceline.config import Settings
from paceline.engine.launch.hardware import Hardware

_CORES_PER_WORKER = 8
"""Chosen by hand: vLLM's own processes want cores too, two or more for each engine on a GPU."""
_MAX_WORKERS = 4
"""Chosen by hand: one process passes some thousand chunks a second on, and engines that bring more
than four times that are rather put behind several gateways."""


def choose_num_workers(settings: Settings, hardware: Hardware) -> tuple[int, str]:
    """The number, and why."""
    given = settings.server.workers
    if given != "auto":
        return given, f"server.workers is {given}"
    if hardware.device == "cpu" and settings.engine.replicas:
        return 1, "one process serves the data port: the engines need the cores"
    num_cores = hardware.num_cores
    if num_cores < _CORES_PER_WORKER:
        return 1, f"one process serves the data port: there are {num_cores} cores"
    number = min(_MAX_WORKERS, num_cores // _CORES_PER_WORKER)
    return number, (
        f"processes that serve the data port: {number}, one for every {_CORES_PER_WORKER} of "
        f"{num_cores} cores, at most {_MAX_WORKERS}"
    )

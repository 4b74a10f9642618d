"""The processes of a real engine below `paceline serve`, and how to kill or stop some of them."""

from __future__ import annotations

import os
import re
import signal
from enum import StrEnum

import psutil


class Victim(StrEnum):
    GROUP = "engine process group"
    """All processes of the engine at once, as the kernel's OOM killer may do with a cgroup."""
    CORE = "engine core only"
    API_SERVER = "API server only"


def signal_engine(root: int, name: str, victim: Victim, number: signal.Signals) -> list[int]:
    """Send a signal to processes of the engine called `name` below `root`. Returns their ids."""
    family = engine_processes(root, name)
    if victim is Victim.CORE:
        family = {pid: what for pid, what in family.items() if "EngineCore" in what}
    elif victim is Victim.API_SERVER:
        family = {pid: what for pid, what in family.items() if "vllm.entrypoints" in what}
    for pid in family:
        os.kill(pid, number)
    return sorted(family)


def engine_processes(root: int, name: str) -> dict[int, str]:
    """Process id to command of one engine, without the guard that watches it.

    The command of the API server names its socket, …/NAME.sock; the other processes are below it.
    """
    servers = {
        pid: command
        for pid, command in processes_below(root).items()
        if re.search(rf"/{re.escape(name)}\.sock\b", command)
        and "vllm.entrypoints" in command
        and "paceline.runtime.engine.process.guard" not in command
    }
    family = dict(servers)
    for server in servers:
        family |= processes_below(server)
    return family


def processes_below(root: int) -> dict[int, str]:
    """Process id to command of every descendant; empty if there is no such process."""
    commands = {}
    try:
        for process in psutil.Process(root).children(recursive=True):
            try:
                commands[process.pid] = " ".join(process.cmdline()).strip()
            except psutil.NoSuchProcess:  # it ended since the list was made
                continue
    except psutil.NoSuchProcess:
        return {}
    return commands


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

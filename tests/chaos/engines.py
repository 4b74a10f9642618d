"""Which processes make up a real engine below `paceline serve`, and how is one of them killed?"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path


class Victim(StrEnum):
    GROUP = "engine process group"
    """All processes of the engine at once, as the kernel's OOM killer may do with a cgroup."""
    CORE = "engine core only"
    API_SERVER = "API server only"


def kill_engine(root: int, name: str, victim: Victim) -> list[int]:
    """SIGKILL to processes of the engine called `name` below `root`. Returns their ids."""
    family = engine_processes(root, name)
    if victim is Victim.CORE:
        family = {pid: what for pid, what in family.items() if "EngineCore" in what}
    elif victim is Victim.API_SERVER:
        family = {pid: what for pid, what in family.items() if "vllm.entrypoints" in what}
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    return sorted(family)


def engine_processes(root: int, name: str) -> dict[int, str]:
    """Process id to command of one engine, without the guard that watches it.

    The API server names its socket, …/NAME.sock, in its command; the rest stands below it.
    """
    parents, commands = _read_processes()
    servers = {
        pid
        for pid, command in commands.items()
        if re.search(rf"/{re.escape(name)}\.sock\b", command)
        and "vllm.entrypoints" in command
        and "paceline.engine.process.guard" not in command
        and _is_below(pid, root, parents)
    }
    return {
        pid: command
        for pid, command in commands.items()
        if pid in servers or any(_is_below(pid, server, parents) for server in servers)
    }


def _is_below(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == root:
            return True
    return False


def _read_processes() -> tuple[dict[int, int], dict[int, str]]:
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
                command = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
            commands[int(entry)] = command.decode(errors="replace")
    return parents, commands

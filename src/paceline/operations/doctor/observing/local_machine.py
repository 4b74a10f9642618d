"""Read from /proc what a server that listens on this machine computes on.

The processes are the one that listens on the port, and those that descend from it. A tunnel or a
container's proxy that listens there has no engine among its descendants: nothing is known then.
Only processes of the same user can be read.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path

from yarl import URL

from paceline.foundation.machine.cpu_info import PROC, read_cpu_flags
from paceline.operations.doctor.readings.local_cpu import KERNEL_LIBRARIES, LocalCpu

_LISTENS = "0A"
"""State of a socket in /proc/net/tcp."""
_LIBRARY = re.compile(r"/vllm/(_C\w*)\.(?:abi3|cpython)[^/]*\.so$", re.MULTILINE)
_GPU = re.compile(r"/lib(?:cuda|torch_cuda|torch_hip|amdhip64)[-.\w]*\.so")


def read_local_cpu(url: URL, proc: Path = PROC) -> LocalCpu | None:
    """None if the server is on another machine, on a GPU, or its engines cannot be read."""
    if not _is_loopback(url) or url.port is None:
        return None
    inodes = set(_listening(proc, url.port))
    if not inodes:
        return None
    owners = {pid for pid in _pids(proc) if inodes & set(_sockets(proc, pid))}
    libraries: set[str] = set()
    for pid in _with_descendants(proc, owners):
        maps = _read(proc / str(pid) / "maps")
        if _GPU.search(maps):
            return None
        libraries |= set(_LIBRARY.findall(maps)) & set(KERNEL_LIBRARIES)
    if not libraries:
        return None
    return LocalCpu(read_cpu_flags(proc), frozenset(libraries))


def _is_loopback(url: URL) -> bool:
    host = url.host or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(proc: Path, port: int) -> Iterator[str]:
    """The inodes of sockets that listen on a port."""
    for name in ("tcp", "tcp6"):
        for line in _read(proc / "net" / name).splitlines()[1:]:
            fields = line.split()
            is_listening = len(fields) > 9 and fields[3] == _LISTENS
            if is_listening and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _sockets(proc: Path, pid: int) -> Iterator[str]:
    """The inodes of the sockets that a process has open."""
    try:
        for descriptor in (proc / str(pid) / "fd").iterdir():
            try:
                kind, _, inode = descriptor.readlink().name.partition(":")
            except OSError:
                continue  # it was closed meanwhile
            if kind == "socket":
                yield inode.strip("[]")
    except OSError:
        return  # another user's process, or it has ended


def _with_descendants(proc: Path, owners: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid in _pids(proc):
        # The name in parentheses may have spaces; the parent is the second field after it.
        fields = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    waiting = list(owners)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, ())
    return found


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

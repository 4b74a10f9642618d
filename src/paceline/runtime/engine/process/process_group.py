"""Which processes of a group still run, and a wait for their end.

A process that was sent SIGKILL holds its GPU memory until the kernel has taken it down, which for
a large CUDA context takes seconds. A zombie holds nothing but its process id; one whose parent
never asks for its exit code would otherwise be waited for without end.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

_POLL_S = 0.05


def running_members(group: int) -> list[int]:
    """The processes of the group that run, sorted; zombies do not. Without /proc none is found."""
    pids = []
    try:
        entries = os.listdir("/proc")
    except FileNotFoundError:
        return []
    for entry in entries:
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_bytes()
        except OSError:  # it has ended
            continue
        # The name in parentheses may contain anything; the state is the first field after it.
        fields = stat.rpartition(b")")[2].split()
        # A first thread that has ended is shown as a zombie while other threads still run.
        is_zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        if int(fields[2]) == group and not is_zombie:
            pids.append(int(entry))
    return sorted(pids)


async def wait_group_ended(group: int, timeout_s: float) -> list[int]:
    """Return when no process of the group runs, or after this time the processes that still do."""
    deadline_s = time.monotonic() + timeout_s
    # In a thread: a large machine has thousands of processes, and streams are relayed meanwhile.
    while _exists(group) and (left := await asyncio.to_thread(running_members, group)):
        if time.monotonic() >= deadline_s:
            return left
        await asyncio.sleep(_POLL_S)
    return []


def _exists(group: int) -> bool:
    """Whether the group has a process, also a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

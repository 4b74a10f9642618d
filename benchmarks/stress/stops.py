"""Stop a random descendant of a process for a moment, and continue it whatever happens.

Only descendants are stopped: a process whose parents lead to the given one at that moment. It is
held by a file descriptor, so that no other process that gets its number later is meant.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

_STOP_BIT = 1 << (signal.SIGSTOP - 1)
_MAX_DELIVERY_S = 10.0
"""A process that waits for a disk, or for its turn on a core, stops late."""
_FORK = multiprocessing.get_context("fork")


def stop_random_descendant(root_pid: int, seconds: float, chance: random.Random) -> bool:
    """Stop one descendant of `root_pid` for this long. False if there is none to stop."""
    descendants = _running_descendants(root_pid)
    if not descendants:
        return False
    return stop_for(chance.choice(descendants), root_pid, seconds)


def stop_for(
    pid: int, root_pid: int, seconds: float, wait: Callable[[float], object] = time.sleep
) -> bool:
    """Stop a descendant of `root_pid` for this long; False if it is none, or has ended.

    A child process does it, which no signal to the terminal's group ends: the stopped process is
    continued even if this one is killed. One that was stopped by somebody else meanwhile stays
    stopped, since a test that stops its server continues it itself.
    """
    child = _FORK.Process(target=_stop_and_continue, args=(pid, root_pid, seconds, wait))
    child.start()
    while child.is_alive():
        try:
            child.join()
        except KeyboardInterrupt:
            child.join()
            raise
    return child.exitcode == 0


def _stop_and_continue(
    pid: int, root_pid: int, seconds: float, wait: Callable[[float], object]
) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        process = os.pidfd_open(pid)
        if pid not in _running_descendants(root_pid):
            os._exit(1)
        signal.pidfd_send_signal(process, signal.SIGSTOP)
    except ProcessLookupError:
        os._exit(1)
    try:
        wait(seconds)
    finally:
        if not _is_stopped_twice(pid):
            with contextlib.suppress(ProcessLookupError):  # it was killed meanwhile
                signal.pidfd_send_signal(process, signal.SIGCONT)
    os._exit(0)


def _running_descendants(root_pid: int) -> list[int]:
    """Without those that are stopped already, or have ended."""
    found = []
    try:
        descendants = psutil.Process(root_pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for process in descendants:
        try:
            if process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def _is_stopped_twice(pid: int) -> bool:
    """Whether another SIGSTOP waits: a stopped process keeps it pending until it is continued.

    Before the process has stopped, the pending one is the first.
    """
    ends_s = time.monotonic() + _MAX_DELIVERY_S
    while time.monotonic() < ends_s:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            return False
        status = dict(line.split(":", 1) for line in lines)
        if status["State"].split()[0] == "T":
            return any(int(status[mask], 16) & _STOP_BIT for mask in ("SigPnd", "ShdPnd"))
        if status["State"].split()[0] in "ZX":
            return False
        time.sleep(0.005)
    return False

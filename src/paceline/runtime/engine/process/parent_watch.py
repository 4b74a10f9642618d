"""End a process together with its parent, by the Linux kernel.

Used in vLLM's processes when Paceline supervises them (`SUPERVISED` is set), so that none survives
even when every process that could clean up is killed at once. Does nothing on other systems.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

from paceline.runtime.engine.launch.environment import SUPERVISED

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(environ: Mapping[str, str] = os.environ) -> None:
    """Request SIGKILL at the parent's end if `environ` marks a supervised engine. Idempotent.

    The kernel watches the parent's *thread* that started this process; that thread must live as
    long as the parent does.
    """
    if SUPERVISED not in environ or sys.platform != "linux":
        return
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:  # the parent ended before the request
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, instead of process 1."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")

"""How does a process make sure that it ends with its parent?

Linux only: the kernel sends SIGKILL when the parent *thread* ends. Used in vLLM's processes when
Paceline supervises them (the variable below is set), so that nothing is left even when every
process that could clean up was killed at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping

SUPERVISED = "PACELINE_SUPERVISED"
"""Set in the environment of engines that Paceline supervises."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(environ: Mapping[str, str] = os.environ) -> None:
    """Ask for SIGKILL at the parent's death, if supervised; harmless the second time.

    Call it from a process whose parent started it from a thread that lives as long as the parent.
    """
    if SUPERVISED not in environ or sys.platform != "linux":
        return
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent or parent == 1:  # it died before it was asked for
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies, instead of process 1."""
    if sys.platform == "linux":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}, {value}): {os.strerror(error)}")

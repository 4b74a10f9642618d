"""How a long benchmark is ended early: in order, with its result on disk."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

EXIT_INTERRUPTED = 130


def end_by_sigterm_too() -> None:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does.

    Servers and engines are ended in `finally`, which a plain SIGTERM would skip. A handler that a
    benchmark has set itself stays; threads other than the main one cannot set any.
    """
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_incomplete(path: Path) -> int:
    """Say how to complete the result; the exit code of an interrupted run."""
    text = f"incomplete: {path}; complete it with --resume" if path.exists() else "nothing written"
    print(f"interrupted, {text}", file=sys.stderr)
    return EXIT_INTERRUPTED

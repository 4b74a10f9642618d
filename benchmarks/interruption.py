"""How a long benchmark is ended early: in order, with its result on disk."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

EXIT_INTERRUPTED = 130


def end_by_sigterm_too() -> None:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does.

    Servers and engines are ended in `finally`, which a plain SIGTERM would skip.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_incomplete(path: Path) -> int:
    """Say how to complete the result; the exit code of an interrupted run."""
    text = f"incomplete: {path}; complete it with --resume" if path.exists() else "nothing written"
    print(f"interrupted, {text}", file=sys.stderr)
    return EXIT_INTERRUPTED

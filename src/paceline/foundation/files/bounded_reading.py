"""Read files of which a path from outside may be anything: a pipe, a device, an endless file."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path

_PIECE_BYTES = 64 * 1024


def read_bounded(
    path: Path, max_bytes: int, pipe_s: float | None = None
) -> tuple[os.stat_result, bytes]:
    """What a file is, and its content.

    Raises OSError, also for more than `max_bytes`, and for what would make the reader wait: a
    device, or a pipe. With `pipe_s`, what a pipe carries is read until its writer closes it, as in
    `<(command)`, within this time.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        is_pipe = stat.S_ISFIFO(status.st_mode) and pipe_s is not None
        if not is_pipe and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        begun_s = time.monotonic()
        content = b""
        while len(content) <= max_bytes:
            if pipe_s is not None and is_pipe:
                _wait_readable(descriptor, begun_s + pipe_s - time.monotonic(), pipe_s)
            piece = file.read(_PIECE_BYTES)
            if not piece:
                return status, content
            content += piece
    raise OSError(errno.EFBIG, f"it is longer than the {max_bytes} bytes allowed")


def _wait_readable(descriptor: int, remaining_s: float, within_s: float) -> None:
    """Return when a pipe has data, or has lost its last writer; one that had none yet is waited
    for."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0, remaining_s * 1000)):
        raise OSError(
            errno.ETIMEDOUT, f"it is a pipe that its writer has not closed within {within_s:g} s"
        )

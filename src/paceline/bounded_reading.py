"""Read files of which a path from outside may be anything: a pipe, a device, an endless file."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path

_PIECE_BYTES = 64 * 1024


def read_regular(path: Path, max_bytes: int) -> tuple[os.stat_result, bytes]:
    """What a file is, and its first bytes. Raises OSError, also for a pipe or a device, which would
    make the reader wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        return status, file.read(max_bytes)


def read_file_or_pipe(path: Path, max_bytes: int, within_s: float) -> bytes:
    """The whole file, or what a pipe carries until its writer closes it, as in `<(command)`.

    Raises OSError for anything else, for more than `max_bytes`, and for a pipe that is not closed
    within this time.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISFIFO(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        deadline_s = time.monotonic() + within_s
        content = b""
        while len(content) <= max_bytes:
            if stat.S_ISFIFO(status.st_mode):
                _wait_readable(descriptor, deadline_s - time.monotonic(), within_s)
            piece = file.read(_PIECE_BYTES)
            if not piece:
                return content
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

"""A file of lines that is written by a thread of its own and never exceeds its bound.

The scheduler's thread hands lines over and never waits for the disk.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from pathlib import Path

logger = logging.getLogger("vllm.paceline.recording")

_MAX_WAITING_LINES = 10_000
"""Lines handed over and not written yet: some MiB. With more, the disk is too slow, and writing
ends."""


class BoundedFile:
    """A new file; each line is written whole, in order.

    `put` may be called from one thread at a time. Nothing is buffered in the process, so that a
    crash loses only the lines that still wait for the disk.
    """

    def __init__(self, path: Path, max_bytes: int, reserved_bytes: int = 0) -> None:
        """Create the file, accessible to this user only. Raises OSError, if it exists too.

        `reserved_bytes` of `max_bytes` are kept for the last line.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o600)
        self._left = max_bytes - reserved_bytes
        self._reserved = reserved_bytes
        self.num_bytes = 0
        """Bytes accepted so far."""
        self.error: str | None = None
        """Why writing failed; None while it works."""
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="paceline-recording", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> bool:
        """Hand a line over; False if it does not fit into the bound, or writing has failed."""
        if self.error is not None or len(line) > self._left:
            return False
        return self._put(line)

    def close(self, last_line: bytes) -> None:
        """Hand over the last line, into the reserved room, and end. Does not wait for the disk."""
        if self.error is None and len(last_line) <= self._reserved:
            self._put(last_line)
        self._lines.put(None)

    def wait_closed(self, timeout_s: float) -> None:
        """Wait until all lines are on disk and the file is closed, after `close`."""
        self._thread.join(timeout_s)

    def _put(self, line: bytes) -> bool:
        if self._lines.qsize() >= _MAX_WAITING_LINES:
            self.error = "the disk is too slow"
            return False
        self._lines.put(line)
        self._left -= len(line)
        self.num_bytes += len(line)
        return True

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                if self.error is None:
                    self._write_whole(line)
        finally:
            os.close(self._descriptor)

    def _write_whole(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self.error = f"writing failed: {error.strerror}"
            logger.error("Recording: %s", self.error)

"""The guard of an engine that another Paceline process started and handed over.

The guard is no child of this process, so the kernel does not report its exit code. It ends its
engine when the last copy of its pipe is closed; this process holds one.
"""

from __future__ import annotations

import asyncio
import os


class AdoptedGuard:
    """The part of `asyncio.subprocess.Process` that an engine needs of its guard."""

    def __init__(self, pid: int) -> None:
        """Take the process with this id. Raises `ProcessLookupError` if there is none."""
        self.pid = pid
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pidfd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._note_end)

    async def wait(self) -> int | None:
        """Return None, the unknown exit code, when the process has ended."""
        await asyncio.shield(self._ended)
        return None

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set_result(0)

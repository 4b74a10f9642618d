"""Stop a server that a measurement started in a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

_STOP_TIMEOUT_S = 30.0


async def stop_server(process: asyncio.subprocess.Process) -> None:
    """Terminate the server, which ends its engines; kill what is left of its session.

    The process must lead its session (`start_new_session`). Cancelled, as by a second Ctrl-C, this
    kills the session without further wait.
    """
    try:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()

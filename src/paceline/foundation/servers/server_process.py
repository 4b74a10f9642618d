"""A server that a measurement starts: start its process, await its readiness, and stop it.

Settings of Paceline in the environment of the caller do not reach the server: its configuration or
its command line decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiohttp

from paceline.foundation.load.config import BenchError

_POLL_S = 0.2
_STOP_TIMEOUT_S = 30.0
_LAST_LOG_CHARS = 2000
"""Shown of the log of a server that did not start."""
_ENVIRONMENT = {"PACELINE_SERVER__LAME_DUCK_S": "0"}
"""No load balancer has to notice the end of a server that only the measurement uses."""
_PREFIX = "PACELINE_"


@contextlib.asynccontextmanager
async def running(
    name: str,
    command: Sequence[str],
    shown: str,
    ready_url: str,
    log_folder: Path,
    start_timeout_s: float,
) -> AsyncIterator[None]:
    """A process whose `ready_url` answers with status 200; it is stopped on exit.

    `name` is that of its log, and `shown` is the command, both in messages. Raises BenchError if it
    does not become ready.
    """
    log = log_folder / f"{name}.log"
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=output,
                stderr=output,
                env={**without_settings(os.environ), **_ENVIRONMENT},
                start_new_session=True,  # Ctrl-C reaches the measurement alone, which stops it
            )
        except OSError as error:
            raise BenchError(f"{name}: {shown} cannot be started: {error}") from error
    try:
        await _wait_until_ready(name, shown, process, ready_url, log, start_timeout_s)
        yield
    finally:
        await _stop(process)


async def _wait_until_ready(
    name: str,
    shown: str,
    process: asyncio.subprocess.Process,
    ready_url: str,
    log: Path,
    start_timeout_s: float,
) -> None:
    deadline_s = asyncio.get_running_loop().time() + start_timeout_s
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while asyncio.get_running_loop().time() < deadline_s:
            if process.returncode is not None:
                raise BenchError(f"{name}: {shown} exited with {process.returncode}:\n{_tail(log)}")
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(ready_url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(_POLL_S)
    raise BenchError(
        f"{name}: {shown} was not ready within {start_timeout_s:g} s (--start-timeout); its log "
        f"ends with:\n{_tail(log)}"
    )


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Terminate the server, which ends its engines; kill what is left of its session.

    Cancelled, as by a second Ctrl-C, this kills the session without further wait.
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


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_LAST_LOG_CHARS:]


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings of Paceline, which would override those of the server.

    >>> without_settings({"PACELINE_ENGINE__DRAFT": "ngram", "PACELINE_PORT": "1", "HOME": "/"})
    {'PACELINE_PORT': '1', 'HOME': '/'}
    """
    return {
        name: value
        for name, value in environ.items()
        if not (name.startswith(_PREFIX) and "__" in name.removeprefix(_PREFIX))
    }


def free_ports() -> tuple[int, int]:
    """Two ports of the loopback address that are free now."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return int(first.getsockname()[1]), int(second.getsockname()[1])

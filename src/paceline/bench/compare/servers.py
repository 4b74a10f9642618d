"""Start a server for a measurement, await its readiness, and stop it.

`serving` starts `paceline serve` for a configuration file; `running` starts any command. Settings
in the environment of the caller do not reach the server: its configuration decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiohttp

from paceline.bench.run.config import BenchError
from paceline.bench.server_process import stop_server

_POLL_S = 0.5
_LAST_LOG_CHARS = 2000
"""Shown of the log of a server that did not start."""
_ENVIRONMENT = {"PACELINE_SERVER__LAME_DUCK_S": "0"}
"""No load balancer has to notice the end of a server that only the measurement uses."""
_PREFIX = "PACELINE_"
_SERVE = "from paceline.cli import main; main(prog_name='paceline')"


@contextlib.asynccontextmanager
async def serving(
    name: str, config: Path, log_folder: Path, start_timeout_s: float
) -> AsyncIterator[str]:
    """The URL of a server with this configuration, ready; it is stopped on exit.

    Its ports are free ones, whatever the file says. Raises BenchError if it does not become ready.
    """
    port, admin_port = free_ports()
    url = f"http://127.0.0.1:{port}"
    command = serve_command(config, port, admin_port)
    shown = f"paceline serve --config {config}"
    async with running(name, command, shown, f"{url}/ready", log_folder, start_timeout_s):
        yield url


def serve_command(config: Path, port: int, admin_port: int) -> list[str]:
    """The command that serves a configuration on these ports of the loopback address."""
    return [
        *(sys.executable, "-c", _SERVE, "serve", "--config", str(config)),
        *("--host", "127.0.0.1", "--port", str(port), "--admin-port", str(admin_port)),
    ]


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

    `shown` is the command in messages. Raises BenchError if it does not become ready.
    """
    log = log_folder / f"{name}.log"
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=output,
                stderr=output,
                env={**without_settings(os.environ), **_ENVIRONMENT},
                start_new_session=True,  # Ctrl-C reaches the comparison alone, which stops it
            )
        except OSError as error:
            raise BenchError(f"{name}: {shown} cannot be started: {error}") from error
    try:
        await _wait_until_ready(name, shown, process, ready_url, log, start_timeout_s)
        yield
    finally:
        await stop_server(process)


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
        f"{name}: {shown} was not ready within {start_timeout_s:g} s "
        f"(--start-timeout); its log is {log}"
    )


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_LAST_LOG_CHARS:]


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings of Paceline, which would override the configuration file.

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

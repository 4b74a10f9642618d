"""Start a server by a command line, await its health, and stop it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from paceline.bench.run.config import BenchError
from paceline.bench.server_process import stop_server

PORT = "{port}"
SPECULATIVE_CONFIG = "{speculative_config}"
_POLL_S = 0.2
_LAST_LOG_CHARS = 2000
"""Shown of the output of a server that did not start."""


def render_words(
    command: str, port: int, rates: Sequence[float], speculative_config: Mapping[str, Any]
) -> list[str]:
    """The words of the command line.

    `rates` are those of vLLM's synthetic acceptance, (draft_length,); they are added to
    `speculative_config`, which names the drafter. BenchError if the command lacks a place for them.
    """
    words = shlex.split(command)
    if not any(PORT in word for word in words):
        raise BenchError(f"--serve is {command!r}; it needs {PORT}, which is replaced by a port")
    has_place = any(SPECULATIVE_CONFIG in word for word in words)
    if has_place != bool(rates):
        raise BenchError(
            f"--serve is {command!r} and --draft-length {len(rates)}; with a draft length above 0 "
            f"it needs {SPECULATIVE_CONFIG}, and with 0 it must not have it"
        )
    document = {
        **speculative_config,
        "num_speculative_tokens": len(rates),
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": list(rates),
    }
    values = {PORT: str(port), SPECULATIVE_CONFIG: json.dumps(document)}
    for place, value in values.items():
        words = [word.replace(place, value) for word in words]
    return words


@contextlib.asynccontextmanager
async def started_server(
    command: str,
    rates: Sequence[float],
    speculative_config: Mapping[str, Any],
    start_timeout_s: float,
) -> AsyncIterator[URL]:
    """The address of a server that was started and is healthy; it is stopped on exit.

    Raises BenchError if it does not become healthy.
    """
    port = _free_port()
    words = render_words(command, port, rates, speculative_config)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C reaches the bench alone, which stops it
                )
            except OSError as error:
                raise BenchError(f"--serve is {command!r}: cannot start it: {error}") from error
        server = URL(f"http://127.0.0.1:{port}")
        try:
            await _wait_until_healthy(process, server, log, start_timeout_s)
            yield server
        finally:
            await stop_server(process)


async def _wait_until_healthy(
    process: asyncio.subprocess.Process, server: URL, log: Path, start_timeout_s: float
) -> None:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + start_timeout_s
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while loop.time() < deadline_s:
            if process.returncode is not None:
                raise BenchError(
                    f"the server of --serve exited with {process.returncode}:\n{_tail(log)}"
                )
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(server / "health") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(_POLL_S)
    raise BenchError(
        f"the server of --serve was not healthy within {start_timeout_s:g} s "
        f"(--start-timeout):\n{_tail(log)}"
    )


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_LAST_LOG_CHARS:]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

"""Start a server by a command line with the rates of a stretch of phases."""

from __future__ import annotations

import contextlib
import json
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from yarl import URL

from paceline.foundation.load.config import BenchError
from paceline.foundation.servers.server_process import free_ports, running

PORT = "{port}"
SPECULATIVE_CONFIG = "{speculative_config}"


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
    port, _ = free_ports()
    words = render_words(command, port, rates, speculative_config)
    server = URL(f"http://127.0.0.1:{port}")
    health = str(server / "health")
    with tempfile.TemporaryDirectory() as folder:
        async with running("--serve", words, command, health, Path(folder), start_timeout_s):
            yield server

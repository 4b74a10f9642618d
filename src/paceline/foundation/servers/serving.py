"""Start `paceline serve` for a configuration file, for a measurement."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.servers.server_process import free_ports, running

_SERVE = "from paceline.cli import main; main(prog_name='paceline')"


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Of the data port and of Paceline's admin port."""

    url: str
    admin_url: str


@contextlib.asynccontextmanager
async def serving(
    name: str, config: Path, log_folder: Path, start_timeout_s: float
) -> AsyncIterator[ServerAddresses]:
    """A server with this configuration, ready; it is stopped on exit.

    Its ports are free ones, whatever the file says. Raises BenchError if it does not become ready.
    """
    port, admin_port = free_ports()
    url = f"http://127.0.0.1:{port}"
    command = serve_command(config, port, admin_port)
    shown = f"paceline serve --config {config}"
    async with running(name, command, shown, f"{url}/ready", log_folder, start_timeout_s):
        yield ServerAddresses(url, f"http://127.0.0.1:{admin_port}")


def serve_command(config: Path, port: int, admin_port: int) -> list[str]:
    """The command that serves a configuration on these ports of the loopback address."""
    return [
        *(sys.executable, "-c", _SERVE, "serve", "--config", str(config)),
        *("--host", "127.0.0.1", "--port", str(port), "--admin-port", str(admin_port)),
    ]

"""Start the server of a configuration: `paceline serve`, or a command of the user."""

from __future__ import annotations

import contextlib
import shlex
import string
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.servers.described import fetch_model
from paceline.foundation.servers.server_process import free_ports, running
from paceline.foundation.servers.serving import serve_command
from paceline.workbench.tune.configuration import render_yaml, server_document
from paceline.workbench.tune.live.block import LiveServer, LoadSettings
from paceline.workbench.tune.live.governor import GovernorControl
from paceline.workbench.tune.values import LiveSetting, RestartConfig, SearchProblem, TuneError

_PORT, _ADMIN_PORT = "port", "admin_port"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What all servers of a tuning share."""

    problem: SearchProblem
    load: LoadSettings
    folder: Path
    """For configurations and logs."""
    api_key: str | None
    start_timeout_s: float
    request_timeout_s: float

    def live_settings(self, restart: RestartConfig) -> tuple[LiveSetting, ...]:
        """The settings that trials may ask of this server."""
        return self.problem.settings[restart]

    def name(self, restart: RestartConfig) -> str:
        """Of its files."""
        return f"server-{list(self.problem.settings).index(restart)}"


class PacelineLauncher:
    """Starts `paceline serve` with the user's configuration and the values of the space.

    The server is for this machine's loopback address, so it asks for no keys. It admits as many
    requests as the largest setting needs.
    """

    def __init__(self, settings: ServerSettings, base: Mapping[str, Any]) -> None:
        self._settings = settings
        self._base = {name: value for name, value in base.items() if name != "keys"}

    @contextlib.asynccontextmanager
    async def start(self, restart: RestartConfig) -> AsyncIterator[LiveServer]:
        """See `Launcher`."""
        settings = self._settings
        most = max(live.max_in_flight for live in settings.live_settings(restart))
        config = settings.folder / f"{settings.name(restart)}.yaml"
        document = server_document(self._base, restart, most)
        config.write_text(render_yaml(document, [restart.label]), encoding="utf-8")
        port, admin_port = free_ports()
        shown = f"paceline serve ({restart.label})"
        command = serve_command(config, port, admin_port)
        ready = f"http://127.0.0.1:{port}/ready"
        async with (
            running(
                settings.name(restart),
                command,
                shown,
                ready,
                settings.folder,
                settings.start_timeout_s,
            ),
            _live_server(settings, restart, port, admin_port) as server,
        ):
            yield server


class CommandLauncher:
    """Starts a command with the fields {port}, {admin_port} and the names of the space.

    Without {admin_port}, draft lengths are set on {port}.
    """

    def __init__(self, settings: ServerSettings, template: str) -> None:
        self._settings = settings
        self._template = template

    @contextlib.asynccontextmanager
    async def start(self, restart: RestartConfig) -> AsyncIterator[LiveServer]:
        """See `Launcher`."""
        settings = self._settings
        port, admin_port = free_ports()
        if _ADMIN_PORT not in fields_of(self._template):
            admin_port = port
        command = fill_command(self._template, restart, port, admin_port)
        ready = f"http://127.0.0.1:{port}/health"
        async with (
            running(
                settings.name(restart),
                command,
                shlex.join(command),
                ready,
                settings.folder,
                settings.start_timeout_s,
            ),
            _live_server(settings, restart, port, admin_port) as server,
        ):
            yield server


def fields_of(template: str) -> set[str]:
    """The fields of a command template. Raises TuneError for braces that name no field."""
    try:
        return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise TuneError(f"--server-command {template!r} is no template: {error}") from None


def check_template(template: str, names: set[str]) -> None:
    """Raise TuneError unless the template has {port} and the fields of the space, and no others."""
    fields = fields_of(template)
    if _PORT not in fields:
        raise TuneError("--server-command has no field {port}; the server must listen on it")
    if missing := sorted(names - fields):
        raise TuneError(f"--server-command has no field {{{missing[0]}}}, which --space varies")
    if unknown := sorted(fields - names - {_PORT, _ADMIN_PORT}):
        raise TuneError(
            f"--server-command has the field {{{unknown[0]}}}, for which --space has no values"
        )


def fill_command(template: str, restart: RestartConfig, port: int, admin_port: int) -> list[str]:
    """The arguments of the command.

    >>> fill_command("serve -p {port} --seqs {seqs}", RestartConfig((("seqs", 8),)), 80, 81)
    ['serve', '-p', '80', '--seqs', '8']
    """
    values: dict[str, Any] = {**dict(restart.settings), _PORT: port, _ADMIN_PORT: admin_port}
    return [part.format_map(values) for part in shlex.split(template)]


@contextlib.asynccontextmanager
async def _live_server(
    settings: ServerSettings, restart: RestartConfig, port: int, admin_port: int
) -> AsyncIterator[LiveServer]:
    """The server on this port, warmed up."""
    url = URL(f"http://127.0.0.1:{port}")
    lives = settings.live_settings(restart)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**20,
    ) as session:
        model = await fetch_model(session, url, settings.api_key)
        client = StreamingClient(session, url, settings.api_key, settings.request_timeout_s)
        governor = None
        if any(live.draft_length is not None for live in lives):
            governor = GovernorControl(session, URL(f"http://127.0.0.1:{admin_port}"))
        server = LiveServer(client, settings.load, model, governor, f"tune-{uuid.uuid4()}")
        await server.warm_up(lives)
        yield server

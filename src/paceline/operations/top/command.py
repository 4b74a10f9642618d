"""The command `paceline top`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paceline.foundation.command_line.option_types import refuse_unwritable_file
from paceline.foundation.servers.default_addresses import DEFAULT_ADMIN_URL

if TYPE_CHECKING:
    from paceline.operations.top.connection import Server
    from paceline.operations.top.plain_server import PlainServer

_EXAMPLES = """\b
Examples:
  paceline top
      The server on this machine; Ctrl-C ends it
  paceline top http://10.0.0.7:8001 --admin-key pl-k3v9x2ab-...
  paceline top http://127.0.0.1:8000
      A vllm serve of one's own
  paceline top | head -12
      Not a terminal: one snapshot as text
  paceline top --json state.json
      One snapshot with the last five minutes, as JSON
"""
_RETRY_S = 1.0


@click.command("top", epilog=_EXAMPLES)
@click.argument("url", default=DEFAULT_ADMIN_URL, metavar="[URL]")
@click.option(
    "--admin-key",
    envvar="PACELINE_ADMIN_KEY",
    show_envvar=True,
    metavar="KEY",
    help="Key of the admin port; any role may watch.",
)
@click.option("--once", is_flag=True, help="Show one snapshot and end, as without a terminal.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write one snapshot as JSON and end; - for standard output.",
)
def top(url: str, admin_key: str | None, once: bool, json_file: Path | None) -> None:
    """Watch a running server in the terminal, as /dashboard shows it.

    URL is the admin port of `paceline serve`, http://127.0.0.1:8001 by default, or a vLLM server
    with Paceline's plugin, whose metrics are read. Draft length and acceptance, goodput measured
    and expected, percentiles of time to first token and time per output token, queue, replicas with
    their circuit breakers, and events, once a second. Ctrl-C ends it with exit code 0.
    """
    from paceline.operations.top.connection import NoLiveView, Server, ServerProblem
    from paceline.operations.top.plain_server import PlainServer

    refuse_unwritable_file("--json", json_file)
    try:
        server = Server(url, admin_key)
    except ValueError as error:
        raise click.UsageError(f"URL: {error}.") from None
    show: Callable[[Server | PlainServer], None] = (
        _print_once if once or not sys.stdout.isatty() else _follow
    )
    if json_file is not None:
        show = partial(_write_json, file=json_file)
    try:
        try:
            show(server)
        except NoLiveView:
            show(PlainServer(server))
    except ServerProblem as problem:
        raise click.ClickException(f"{problem}.") from None
    except KeyboardInterrupt:
        return


def _write_json(server: Server | PlainServer, file: Path) -> None:
    text = json.dumps(server.fetch(), indent=1) + "\n"
    if str(file) == "-":
        click.echo(text, nl=False)
    else:
        file.write_text(text)


def _print_once(server: Server | PlainServer) -> None:
    from rich.console import Console

    from paceline.operations.top.history import Watched
    from paceline.operations.top.screen import render

    console = Console()
    watched = Watched(server.fetch())
    console.print(render(watched, width=console.width))


def _follow(server: Server | PlainServer) -> None:
    """Show every event until Ctrl-C. A lost connection is opened again; the first one must succeed.

    Every connection begins with the history, so nothing is missing after a reconnect.
    """
    from rich.console import Console
    from rich.live import Live

    from paceline.operations.top.connection import ServerProblem
    from paceline.operations.top.history import Missed, Watched
    from paceline.operations.top.screen import render

    console = Console()
    watched: Watched | None = None
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw(status: str) -> None:
            if watched is not None:
                width, height = console.size
                shown = render(watched, width=width, height=height, status=status)
                live.update(shown, refresh=True)

        while True:
            reason = "the server ended the stream"
            try:
                for name, document in server.events():
                    if name == "history":
                        watched = Watched(document)
                    elif watched is not None:
                        watched.update(document)
                    draw("live")
            except Missed:
                continue
            except ServerProblem as problem:
                if watched is None or not problem.may_pass:
                    raise
                reason = str(problem)
            draw(f"{reason}; reconnecting")
            time.sleep(_RETRY_S)

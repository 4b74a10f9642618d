"""`paceline record`: record a running server for `paceline plan replay`.

It sends requests to the admin port; the engines record.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import click

from paceline.finite_float import FiniteFloat

_TIMEOUT_S = 30.0
_MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MIB = 1024 * 1024
_EXAMPLES = """\b
Examples:
  paceline record start
      Every engine of the server on this machine, for an hour or 64 MiB at most
  paceline record start --max-seconds 600 --replica engine-0
  paceline record status
  paceline record stop
  paceline plan replay ~/.local/state/paceline/8000/engine-0.recording.jsonl --draft-length 3
  paceline record delete
"""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the server; they are the same for every subcommand."""
    for option in (
        click.option(
            "--admin-url",
            default="http://127.0.0.1:8001",
            show_default=True,
            metavar="URL",
            help="Admin port of the server.",
        ),
        click.option(
            "--admin-key",
            envvar="PACELINE_ADMIN_KEY",
            show_envvar=True,
            metavar="KEY",
            help="Key of the admin port; start, stop and delete need the role operate.",
        ),
        click.option("--replica", metavar="NAME", help="One engine.  [default: all]"),
        click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
    ):
        command = option(command)
    return command


@click.group("record", epilog=_EXAMPLES, short_help="Record a running server for plan replay.")
def record() -> None:
    """Record a running server, for `paceline plan replay`.

    A recording holds numbers only: arrivals, lengths, acceptance by position and category, and step
    times by shape. It holds no text, no token and no name. Every engine writes one file, within a
    bound, on its own machine; it stays until it is deleted. Nothing is recorded before `start`.
    """


@record.command("start", epilog=_EXAMPLES)
@click.option(
    "--max-mib",
    type=FiniteFloat(min=1, max=1024),
    default=64.0,
    show_default=True,
    help="Size at which an engine's recording ends.",
)
@click.option(
    "--max-seconds",
    type=FiniteFloat(min=1, max=604_800),
    default=3600.0,
    show_default=True,
    help="Time after which it ends.",
)
@_options
def start(max_mib: float, max_seconds: float, **options: Any) -> None:
    """Begin to record."""
    body = {"action": "start", "max_bytes": int(max_mib * _MIB), "max_seconds": max_seconds}
    _send("POST", body, **options)


@record.command("status")
@_options
def status(**options: Any) -> None:
    """Show whether and where the engines record."""
    _send("GET", None, **options)


@record.command("stop")
@_options
def stop(**options: Any) -> None:
    """End the recording; its file stays."""
    _send("POST", {"action": "stop"}, **options)


@record.command("delete")
@_options
def delete(**options: Any) -> None:
    """Delete the recording's file."""
    _send("DELETE", None, **options)


def _send(
    method: str,
    body: Mapping[str, object] | None,
    *,
    admin_url: str,
    admin_key: str | None,
    replica: str | None,
    as_json: bool,
) -> None:
    url = f"{admin_url.rstrip('/')}/admin/recording"
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(
            f"--admin-url is {admin_url!r}; it must begin with http:// or https://"
        )
    if replica is not None:
        url += f"?replica={urllib.parse.quote(replica)}"
    headers = {"content-type": "application/json"}
    if admin_key is not None:
        headers["authorization"] = f"Bearer {admin_key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            document = json.loads(answer.read(_MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise click.ClickException(_message(error)) from None
    except (OSError, ValueError) as error:
        raise click.ClickException(
            f"{url} cannot be reached ({error}). Give the admin port with --admin-url"
        ) from None
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for name, state in document["replicas"].items():
        click.echo(f"{name}: {describe(state)}")


def describe(state: Mapping[str, Any]) -> str:
    """One engine's status in words."""
    if "recording" not in state:
        return str(state.get("error", "unknown"))
    size = f"{state['bytes'] / _MIB:.1f} of {state['max_bytes'] / _MIB:.0f} MiB"
    counted = f"{state['num_requests']} requests, {state['num_steps']} steps, {size}"
    if state["recording"]:
        limit = f"{state['seconds']:.0f} of {state['max_seconds']:.0f} s"
        return f"recording for {limit}: {counted}, to {state['file']}"
    if state["error"]:
        return f"not recording; the last one failed: {state['error']} ({state['file']})"
    if not state["exists"]:
        return "not recording, and there is no file"
    if state["ended"] is None:
        return f"not recording; there is an earlier file, {state['file']}"
    return f"not recording; ended ({state['ended']}) with {counted}: {state['file']}"


def _message(error: urllib.error.HTTPError) -> str:
    """The gateway's message, or the status of an answer that has none."""
    try:
        document = json.loads(error.read(_MAX_ANSWER_BYTES))
        return str(document["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{error.url} answered with status {error.code}"

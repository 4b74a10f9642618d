"""`paceline record`: record a running server for `paceline plan replay`.

It sends requests to the admin port; the engines record.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import click

from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.admin_request import send_to_admin, server_options
from paceline.operations.governor_command import ask_engine, name_of

_MIB = 1024 * 1024
_EXAMPLES = """\b
Examples:
  paceline record start
      Every engine of the server on this machine, for an hour or 64 MiB at most
  paceline record start --max-seconds 600 --replica engine-0
  paceline record start --vary-draft-length
      To predict draft lengths that the governor seldom chooses
  paceline record start --pid 4711
      A vllm serve of one's own, whose recording_file is set
  paceline record status
  paceline record stop
  paceline plan replay ~/.local/state/paceline/8000/engine-0.recording.jsonl --draft-length 3
  paceline record delete
"""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the server; they are the same for every subcommand."""
    for option in (
        click.option("--replica", metavar="NAME", help="One engine.  [default: all]"),
        click.option(
            "--pid",
            type=click.IntRange(min=1),
            metavar="PID",
            help="Process id of a vllm serve of this user on this machine, in the place of an "
            "admin port.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
    ):
        command = option(command)
    return server_options(command)


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
@click.option(
    "--vary-draft-length",
    is_flag=True,
    help="Use other draft lengths than the governor's in 3 % of the steps, so that the recording "
    "holds what they take. Outputs stay the same.",
)
@_options
def start(max_mib: float, max_seconds: float, *, vary_draft_length: bool, **options: Any) -> None:
    """Begin to record."""
    body: dict[str, object] = {
        "action": "start",
        "max_bytes": int(max_mib * _MIB),
        "max_seconds": max_seconds,
    }
    if vary_draft_length:  # an engine of an earlier version refuses the key
        body["vary_draft_length"] = True
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
    replica: str | None,
    pid: int | None,
    as_json: bool,
    **server: Any,
) -> None:
    if pid is None:
        query = "" if replica is None else f"?replica={urllib.parse.quote(replica)}"
        document = send_to_admin(method, f"/admin/recording{query}", body, **server)
    else:
        action = {"GET": {"action": "status"}, "DELETE": {"action": "delete"}}.get(method, body)
        status = ask_engine(pid, {"op": "record", **(action or {})})
        document = {"replicas": {name_of(pid): status}}
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    for name, state in document["replicas"].items():
        click.echo(printable(f"{name}: {describe(state)}"))


def describe(state: Mapping[str, Any]) -> str:
    """One engine's status in words."""
    if "recording" not in state:
        return str(state.get("error", "unknown"))
    size = f"{state['bytes'] / _MIB:.1f} of {state['max_bytes'] / _MIB:.0f} MiB"
    counted = f"{state['num_requests']} requests, {state['num_steps']} steps, {size}"
    if state["recording"]:
        limit = f"{state['seconds']:.0f} of {state['max_seconds']:.0f} s"
        varied = ", with other draft lengths" if state.get("varies_draft_length") else ""
        return f"recording for {limit}{varied}: {counted}, to {state['file']}"
    if state["error"]:
        return f"not recording; the last one failed: {state['error']} ({state['file']})"
    if not state["exists"]:
        return "not recording, and there is no file"
    if state["ended"] is None:
        return f"not recording; there is an earlier file, {state['file']}"
    return f"not recording; ended ({state['ended']}) with {counted}: {state['file']}"

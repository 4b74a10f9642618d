"""`paceline governor`: show and change the governor of a running server.

Of `paceline serve` through its admin port; of a plain `vllm serve` of the same user on the same
machine through the control channel of its engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers import governor_channel
from paceline.foundation.servers.admin_request import send_to_admin
from paceline.foundation.servers.default_addresses import DEFAULT_ADMIN_URL

_EXAMPLES = """\b
Examples:
  paceline governor get
      The vLLM server of this user on this machine; without one, paceline serve
  paceline governor get 4711 --json
      The vllm serve with this process id
  paceline governor set --draft-length 0
      Off, until the policy is set again
  paceline governor set --policy goodput --ceiling 4
  paceline governor set http://10.0.0.7:8001 --policy goodput --admin-key pl-k3v9x2ab-...
"""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what chooses the server and the form of the answer."""
    for option in (
        click.argument("server", required=False, metavar="[SERVER]"),
        click.option(
            "--admin-key",
            envvar="PACELINE_ADMIN_KEY",
            show_envvar=True,
            metavar="KEY",
            help="Key of the admin port; changes need the role operate, or admin.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print the state as JSON."),
    ):
        command = option(command)
    return command


@click.group("governor", epilog=_EXAMPLES, short_help="Show and change the governor of a server.")
def governor() -> None:
    """Show and change the governor of a running server.

    SERVER is the URL of the admin port of `paceline serve`, or the process id of a `vllm serve`
    with --scheduler-cls paceline.engine.AdaptiveScheduler. The latter has no port for this: the
    command reaches those of the same user on the same machine (in a container: from within it).
    Without SERVER it is the only such server, or else http://127.0.0.1:8001.

    Changes apply from the next step on and last until the engine ends.
    """


@governor.command("get", epilog=_EXAMPLES)
@_options
def get(**options: Any) -> None:
    """Show policy, draft length and reason."""
    _send(None, **options)


@governor.command("set", epilog=_EXAMPLES)
@click.option("--policy", metavar="NAME", help="Policy that chooses the draft length.")
@click.option(
    "--policy-parameters", metavar="JSON", help="Its parameters, as docs/policies.md lists them."
)
@click.option(
    "--draft-length",
    type=click.IntRange(min=0),
    metavar="K",
    help="Hold this draft length; 0 is off. Implies the policy fixed.",
)
@click.option(
    "--ceiling", type=click.IntRange(min=0), metavar="K", help="Longest draft that may be planned."
)
@_options
def change(
    policy: str | None,
    policy_parameters: str | None,
    draft_length: int | None,
    ceiling: int | None,
    **options: Any,
) -> None:
    """Change policy, draft length or ceiling."""
    given = {
        "policy": policy,
        "policy_parameters": _parsed(policy_parameters),
        "draft_length": draft_length,
        "ceiling": ceiling,
    }
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise click.UsageError("Nothing to set: give --policy, --draft-length or --ceiling.")
    _send(body, **options)


def _parsed(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--policy-parameters is no JSON: {error}.") from None


def _send(
    body: Mapping[str, object] | None, *, server: str | None, admin_key: str | None, as_json: bool
) -> None:
    pid = _process_of(server)
    if pid is None:
        method = "GET" if body is None else "PATCH"
        url = DEFAULT_ADMIN_URL if server is None else server
        document = send_to_admin(
            method, "/admin/governor", body, admin_url=url, admin_key=admin_key, named="SERVER"
        )
        states = document["replicas"]
    else:
        request = {"op": "state"} if body is None else {"op": "set", **body}
        states = {name_of(pid): ask_engine(pid, request)}
    if as_json:
        click.echo(json.dumps({"replicas": states}, indent=1))
        return
    for name, state in states.items():
        for line in describe(state):
            click.echo(printable(f"{name}: {line}"))


def _process_of(server: str | None) -> int | None:
    """The process id of a vLLM server; None for an admin port."""
    if server is not None:
        return int(server) if server.isdigit() else None
    found = governor_channel.list_servers()
    if len(found) > 1:
        listed = ", ".join(map(str, found))
        raise click.UsageError(
            f"Several vLLM servers of this user have a governor: give one of the process ids "
            f"{listed} as SERVER, or the URL of an admin port."
        )
    return found[0] if found else None


def name_of(pid: int) -> str:
    """How the answers name a vLLM server."""
    return f"vllm serve, process {pid}"


def ask_engine(pid: int, request: Mapping[str, object]) -> dict[str, Any]:
    """The state in the engine's answer; a `click.ClickException` without one."""
    try:
        return governor_channel.send(governor_channel.address_of(pid), request)
    except ValueError as error:
        raise click.UsageError(f"The engine of process {pid} refuses: {error}.") from None
    except OSError as error:
        raise click.ClickException(
            f"The process {pid} has no governor that this user can reach ({error}). Give the "
            "process id of a vllm serve with --scheduler-cls paceline.engine.AdaptiveScheduler and "
            "without control_socket, run by the same user in the same container."
        ) from None


def describe(state: Mapping[str, Any]) -> Iterator[str]:
    """One governor's state in a few lines."""
    if "policy" not in state:
        yield str(state.get("error", "unknown"))
        return
    yield (
        f"policy {state['policy']}, draft length {state['draft_length']}, ceiling "
        f"{state['ceiling']} of {state['max_draft_length']}"
    )
    yield str(state["reason"])
    yield f"step times: {state['costs']}"

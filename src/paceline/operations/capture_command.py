"""`paceline capture`: show and delete the prompts that a running server keeps.

It sends requests to the admin port. What is kept, and whether anything is, are settings of the
server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.admin_request import send_to_admin, server_options

_MIB = 1024 * 1024
_EXAMPLES = """\b
Examples:
  paceline capture status
  paceline capture delete
      Every prompt kept so far; to keep no more, set capture.share to 0
"""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that are the same for every subcommand."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
    return server_options(as_json(command))


@click.group("capture", epilog=_EXAMPLES, short_help="Show and delete captured prompts.")
def capture() -> None:
    """Show and delete the prompts that a running server keeps for training a draft.

    Nothing is kept unless capture.folder is set.
    """


@capture.command("status")
@_options
def status(as_json: bool, **server: Any) -> None:
    """Show what is kept, where, and by which rules."""
    _print(send_to_admin("GET", "/admin/capture", None, **server), as_json, describe)


@capture.command("delete")
@_options
def delete(as_json: bool, **server: Any) -> None:
    """Delete all prompts kept so far."""
    _print(send_to_admin("DELETE", "/admin/capture", None, **server), as_json, describe_deletion)


def _print(
    answer: Mapping[str, Any], as_json: bool, in_words: Callable[[Mapping[str, Any]], str]
) -> None:
    click.echo(json.dumps(answer, indent=1) if as_json else printable(in_words(answer)))


def describe(state: Mapping[str, Any]) -> str:
    """The status in words."""
    if "folder" not in state:
        return "not capturing: capture.folder is not set"
    size = f"{state['bytes'] / _MIB:.1f} of {state['max_bytes'] / _MIB:.0f} MiB"
    oldest = "nothing yet" if state["capturing"] else "nothing"
    if state["oldest_s"] is not None:
        oldest = (
            f"{size} in {state['num_files']} files, the oldest {state['oldest_s'] / 3600:.1f} of "
            f"{state['max_age_s'] / 3600:.1f} h old"
        )
    if not state["capturing"]:
        return f"not capturing: capture.share is 0; still kept: {oldest}, in {state['folder']}"
    redaction = f"redacted by {state['redact']}" if state["redact"] else "not redacted"
    kind = "prompts and answers" if state["answers"] else "prompts"
    share = f"{state['share']:.1%} of the requests"
    return f"capturing {kind} of {share}, {redaction}: {oldest}, in {state['folder']}"


def describe_deletion(answer: Mapping[str, Any]) -> str:
    """What was deleted, in words."""
    size = f"{answer['bytes_deleted'] / _MIB:.1f} MiB"
    return f"deleted {answer['num_files_deleted']} files, {size}"

"""`paceline draft swap`: have a running server replace the draft of its engines, one by one.

It sends requests to the admin port and shows the progress. The server does the work: if this
command is interrupted, the swap continues.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.admin_request import send_to_admin, server_options

_PROVENANCE = "paceline-provenance.json"
"""`training.FILE_NAME`; importing it here would load torch."""
_POLL_S = 1.0
"""Chosen empirically: an engine takes seconds to minutes."""
_EXIT_STOPPED = 1
_EXIT_INTERRUPTED = 130
_EXAMPLES = """\b
Examples:
  paceline draft swap drafts/mine/draft
      Serve the draft that paceline draft train has promoted
  paceline draft swap ngram --admin-url http://127.0.0.1:9001
      Go back to prompt lookup
  curl localhost:8001/admin/draft
      Show the draft of each engine, and the last swap
"""


@click.command(
    "swap", epilog=_EXAMPLES, short_help="Replace the draft of a running server's engines."
)
@click.argument("draft")
@click.option(
    "--allow-outage",
    is_flag=True,
    help="Also restart an engine when no other replica is ready; requests then wait or get a 503.",
)
@click.option(
    "--unpromoted", is_flag=True, help="Also serve a draft that paceline draft train has refused."
)
@click.option("--no-wait", is_flag=True, help="Return when the swap has begun.")
@server_options
def swap_draft(
    draft: str,
    allow_outage: bool,
    unpromoted: bool,
    no_wait: bool,
    **server: Any,
) -> None:
    """Serve DRAFT instead of the present draft, without losing a request.

    DRAFT is a folder on the server's machine, or another value of paceline serve --draft. The
    engines are replaced one after the other: an engine completes its requests, restarts with the
    new draft and serves again before the next one follows. If one does not start, it gets its old
    draft back and the swap stops. The key needs the role admin.

    Exit code: 0 when all engines run with DRAFT, 1 when the swap was refused or has stopped.
    """
    folder = Path(draft)
    if folder.is_dir() and draft not in ("auto", "ngram", "suffix", "none"):
        draft = str(folder.resolve())
        if not unpromoted:
            _refuse_unpromoted(folder)
    body = {"draft": draft, "allow_outage": allow_outage}
    answer: dict[str, Any] = {}
    try:
        answer = send_to_admin("POST", "/admin/draft", body, **server)
        if no_wait:
            click.echo("The swap has begun; GET /admin/draft shows it.")
            return
        swap = _follow(
            answer["swap"], lambda: send_to_admin("GET", "/admin/draft", None, **server)["swap"]
        )
    except KeyboardInterrupt:
        what = "The swap continues" if answer else "If the swap has begun, it continues"
        click.echo(f"Interrupted. {what} in the server; GET /admin/draft shows it.", err=True)
        sys.exit(_EXIT_INTERRUPTED)
    click.echo(printable(describe_end(swap)))
    sys.exit(0 if swap["state"] == "completed" else _EXIT_STOPPED)


def _refuse_unpromoted(folder: Path) -> None:
    """Raise `click.ClickException` if the training measured no gain."""
    try:
        provenance = json.loads((folder / _PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # not made by `paceline draft train`
    if isinstance(provenance, dict) and provenance.get("promoted") is False:
        raise click.ClickException(
            f"{folder} was not promoted: {provenance.get('reason')}. Give --unpromoted to serve it "
            "anyway"
        )


def _follow(swap: dict[str, Any], fetch: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """Print each change of a phase until the swap has ended; returns its last state.

    Raises `click.ClickException` if the server does not answer, or shows no swap any more or
    another one.
    """
    shown: dict[str, str] = {}
    while True:
        for line in progress_lines(swap, shown):
            click.echo(printable(line), err=True)
        if swap["state"] != "running":
            return swap
        time.sleep(_POLL_S)
        try:
            later = fetch()
        except click.ClickException as error:
            raise click.ClickException(
                f"The progress cannot be read any more: {error.message}. If the server has ended, "
                "the swap is lost; otherwise it continues, and GET /admin/draft shows it"
            ) from None
        if later is None or later["begun_at"] != swap["begun_at"]:
            raise click.ClickException(
                "The server no longer shows this swap: it was started anew, or swaps again since. "
                "GET /admin/draft shows what its engines run with"
            )
        swap = later


def progress_lines(swap: Mapping[str, Any], shown: dict[str, str]) -> list[str]:
    """What has changed since `shown`, the text by engine, which is updated."""
    lines = []
    for engine in swap["replicas"]:
        text = engine["phase"] + (f": {engine['reason']}" if engine["reason"] else "")
        if shown.get(engine["name"], "waiting") != text:
            lines.append(f"{engine['name']}: {text}")
        shown[engine["name"]] = text
    return lines


def describe_end(swap: Mapping[str, Any]) -> str:
    """The result in words."""
    if swap["state"] == "completed":
        return (
            f"All engines run with {swap['draft']}. To keep it after a restart of paceline serve, "
            "set engine.draft."
        )
    swapped = [one["name"] for one in swap["replicas"] if one["phase"] == "swapped"]
    reason = swap["reason"] or "the server is ending"
    return f"Stopped: {reason}. With the new draft: {', '.join(swapped) or 'none'}."

"""`paceline keys`: create, list and revoke keys.

It changes only the file; gateways that use the file notice within a second.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from paceline.foundation.command_line.option_types import NamedChoice
from paceline.foundation.command_line.strict_command import StrictCommand
from paceline.runtime.config import ConfigError, load_settings
from paceline.runtime.gateway.keys.file import change_text, read_text
from paceline.runtime.gateway.keys.record import (
    MAX_KEYS,
    KeyRecord,
    KeysUnusable,
    hash_secret,
    join_key,
    make_key,
    parse_lines,
    parse_records,
    render_line,
)
from paceline.runtime.gateway.keys.roles import Role

_EXAMPLES = """\b
Examples:
  paceline keys create --tenant acme
      Prints the key; it cannot be shown again
  paceline keys create --tenant acme --grant priority --expires 90d
  paceline keys create --tenant clinic --no-capture
      Its prompts are not kept where capture is on
  paceline keys create --admin --tenant ops
      A key for the admin port (keys.admin_key_file)
  paceline keys create --admin --tenant watch --role read
  paceline keys list
  paceline keys revoke k3v9x2ab
"""

_SPAN = re.compile(r"(\d{1,5})([dh])")


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the file; they are the same for every subcommand."""
    for option in (
        click.option("--admin", is_flag=True, help="Keys of the admin port, not of the data port."),
        click.option(
            "--file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="File of keys; by default keys.file (with --admin: keys.admin_key_file).",
        ),
        click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Settings file; by default paceline.yaml, if it exists.",
        ),
    ):
        command = option(command)
    return command


@click.group("keys", epilog=_EXAMPLES, short_help="Create, list and revoke API keys.")
def keys() -> None:
    """Create, list and revoke the keys of clients and operators.

    The file holds hashes only, so a key is shown once, when it is created.
    """


@keys.command("create", cls=StrictCommand, epilog=_EXAMPLES)
@click.option(
    "--tenant", required=True, metavar="NAME", help="Holder of the key; may have several."
)
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="FIELD",
    help="An engine field that is refused by default and that this key may use; repeatable.",
)
@click.option(
    "--no-capture", is_flag=True, help="Never keep prompts sent with this key (capture.folder)."
)
@click.option(
    "--role",
    type=NamedChoice([role.value for role in Role]),
    help="With --admin, what the key may do: read; operate (also governors and draining); admin "
    "(also add and remove replicas), the default.",
)
@click.option(
    "--expires",
    metavar="WHEN",
    help="90d, 12h, or a date such as 2027-01-31 or 2027-01-31T12:00+01:00; UTC without a time "
    "zone. By default the key does not expire.",
)
@_options
def create(
    tenant: str,
    grants: tuple[str, ...],
    no_capture: bool,
    role: str | None,
    expires: str | None,
    admin: bool,
    file: Path | None,
    config: Path | None,
) -> None:
    """Create a key. Prints the key to standard output, and its description to standard error."""
    path = _path(admin, file, config)
    if admin and (grants or no_capture):
        given = "--grant" if grants else "--no-capture"
        raise click.UsageError(f"{given} is for the data port; leave it out with --admin")
    if role is not None and not admin:
        raise click.UsageError("--role is for the admin port; add --admin, or leave it out")
    now = datetime.now(UTC).replace(microsecond=0)
    expires_at = None if expires is None else _moment(expires, now)
    key_id, secret = make_key()
    try:
        record = KeyRecord(
            id=key_id,
            tenant=tenant,
            secret_sha256=hash_secret(secret),
            created_at=now,
            expires_at=expires_at,
            granted_fields=tuple(sorted(set(grants))),
            captured=False if no_capture else msgspec.UNSET,
            role=Role(role or Role.ADMIN) if admin else None,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def add(text: str) -> str:
        records = parse_records(text)
        if not admin and any(known.role is not None for known in records):
            raise KeysUnusable(
                "the file has keys of the admin port, where a key without a role may do "
                "everything; add --admin, or give another file"
            )
        if len(records) >= MAX_KEYS:
            raise KeysUnusable(f"the file has {MAX_KEYS} keys, the maximum; revoke some")
        if any(known.id == key_id for known in records):
            raise KeysUnusable("the random id is already in use; run the command again")
        return text + ("" if text.endswith("\n") or not text else "\n") + render_line(record)

    _change(path, add)
    until = "" if expires_at is None else f", until {expires_at.isoformat()}"
    click.echo(f"paceline: key {key_id} of {tenant}{until}; it cannot be shown again", err=True)
    click.echo(join_key(key_id, secret))


@keys.command("list", cls=StrictCommand, epilog=_EXAMPLES)
@_options
def show(admin: bool, file: Path | None, config: Path | None) -> None:
    """List the keys: id, tenant, dates and granted fields. Secrets are not stored."""
    path = _path(admin, file, config)
    try:
        records = parse_records(read_text(path))
    except KeysUnusable as error:
        raise _failed(path, error) from None
    now = datetime.now(UTC)
    rows = [("ID", "TENANT", "CREATED", "EXPIRES", "ROLE" if admin else "GRANTED")]
    for record in records:
        expires = "never" if record.expires_at is None else record.expires_at.isoformat()
        if record.expires_at is not None and record.expires_at <= now:
            expires += " (expired)"
        may = (record.role or Role.ADMIN) if admin else " ".join(record.granted_fields) or "-"
        if record.captured is False:
            may += " (not captured)"
        rows.append((record.id, record.tenant, record.created_at.isoformat(), expires, may))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


@keys.command("revoke", cls=StrictCommand, epilog=_EXAMPLES)
@click.argument("key_id", metavar="ID")
@_options
def revoke(key_id: str, admin: bool, file: Path | None, config: Path | None) -> None:
    """Remove a key from the file.

    Gateways refuse it within a second. Requests in flight continue.
    """
    path = _path(admin, file, config)

    def remove(text: str) -> str:
        lines = list(parse_lines(text))
        kept = [line for line, record in lines if record is None or record.id != key_id]
        if len(kept) == len(lines):
            raise click.UsageError(
                f"{path} has no key with the id {key_id[:50]!r}; paceline keys list shows the ids"
            )
        return "".join(kept)

    _change(path, remove)
    click.echo(f"paceline: key {key_id} is revoked", err=True)


def _path(admin: bool, file: Path | None, config: Path | None) -> Path:
    if file is not None:
        return file
    try:
        settings = load_settings({}, os.environ, config).settings.keys
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    name, path = (
        ("keys.admin_key_file", settings.admin_key_file) if admin else ("keys.file", settings.file)
    )
    if path is None:
        raise click.UsageError(
            f"{name} is not set, so there is no key file; set it in paceline.yaml or give --file"
        )
    return path


def _moment(text: str, now: datetime) -> datetime:
    span = _SPAN.fullmatch(text)
    try:
        if span is not None:
            number = int(span[1])
            moment = now + (timedelta(days=number) if span[2] == "d" else timedelta(hours=number))
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"--expires is {text[:50]!r}; it must be a number of days or hours (90d, 12h) or a "
            "date (2027-01-31, 2027-01-31T12:00+01:00)"
        ) from None
    if moment <= now:
        raise click.UsageError(f"--expires is {text!r}, which has passed; give a later time")
    return moment


def _change(path: Path, change: Callable[[str], str]) -> None:
    try:
        change_text(path, change)
    except KeysUnusable as error:
        raise _failed(path, error) from None


def _failed(path: Path, error: KeysUnusable) -> click.ClickException:
    """The error that ends the command with exit code 2."""
    named = str(error) if str(path) in str(error) else f"{path}, {error}"
    return click.UsageError(named)

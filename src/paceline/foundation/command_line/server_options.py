"""Options of the commands that send requests to a server, and the addresses and keys they give.

Imports nothing heavy, so that `--help` stays fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


MODEL = click.option(
    "--model", help="Model to request.  [default: the first that the server lists]"
)


def api_key_option(help_text: str) -> Callable[[Command], Command]:
    """The option `--api-key`, which may come from the environment."""
    return click.option(
        "--api-key", envvar="PACELINE_BENCH_API_KEY", show_envvar=True, help=help_text
    )


def admin_key_option(help_text: str) -> Callable[[Command], Command]:
    """The option `--admin-key`, which may come from the environment."""
    return click.option(
        "--admin-key", envvar="PACELINE_ADMIN_KEY", show_envvar=True, help=help_text
    )


def read_address(option: str, url: str | None) -> str | None:
    """The origin of an address. Raises `click.UsageError` that names the option."""
    from paceline.foundation.load.config import BenchError, parse_server_url

    try:
        return None if url is None else str(parse_server_url(url))
    except BenchError as error:
        raise click.UsageError(f"{option}: {error}") from error


def choose_other_key(
    url: str | None, other: str | None, api_key: str | None, other_key: str | None
) -> str | None:
    """The key for a second server: its own, or that of `url` if both have the same origin."""
    from yarl import URL

    if other_key is not None or url is None or other is None:
        return other_key
    return api_key if URL(url).origin() == URL(other).origin() else None

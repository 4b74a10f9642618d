"""Requests of the command line to the admin port of a running server."""

from __future__ import annotations

import http.client
import ipaddress
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import click

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.default_addresses import ADMIN_PORT, DEFAULT_ADMIN_URL, at_port

_TIMEOUT_S = 30.0
_MAX_ANSWER_BYTES = 4 * 1024 * 1024


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--admin-url` and `--admin-key`, which choose the server."""
    for option in (
        click.option(
            "--admin-url",
            default=DEFAULT_ADMIN_URL,
            show_default=True,
            metavar="URL",
            help="Admin port of the server.",
        ),
        click.option(
            "--admin-key",
            envvar="PACELINE_ADMIN_KEY",
            show_envvar=True,
            metavar="KEY",
            help="Key of the admin port; changes need the role operate, or admin.",
        ),
    ):
        command = option(command)
    return command


def send_to_admin(
    method: str,
    path: str,
    body: Mapping[str, object] | None,
    *,
    admin_url: str,
    admin_key: str | None,
    named: str = "--admin-url",
) -> dict[str, Any]:
    """The answer to a request. `path` begins with a slash and may have a query; `named` is how the
    command names the URL.

    Raises `click.UsageError` for a wrong URL, and `click.ClickException` with the server's message
    when it refuses or cannot be reached.
    """
    url = f"{admin_url.rstrip('/')}{path}"
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{named} is {admin_url!r}; it must begin with http:// or https://")
    headers = {"content-type": "application/json"}
    if admin_key is not None:
        headers["authorization"] = f"Bearer {admin_key}"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, headers, method=method)
        with opener_for(request).open(request, timeout=_TIMEOUT_S) as answer:
            document: dict[str, Any] = json.loads(answer.read(_MAX_ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        raise click.ClickException(_message(error)) from None
    except (OSError, ValueError, http.client.InvalidURL) as error:
        raise click.ClickException(
            f"{url} cannot be reached ({getattr(error, 'reason', error)}). {named} must be the "
            f"admin port of a running server, by default {at_port(admin_url, ADMIN_PORT)}"
        ) from None
    return document


def opener_for(request: urllib.request.Request) -> urllib.request.OpenerDirector:
    """Follows no redirect: urllib would send the key along, to another host too.

    Without the proxy of the environment for this machine: the proxy would get the key, and ask
    itself.
    """
    host = urllib.parse.urlsplit(request.full_url).hostname or ""
    if _is_this_machine(host):
        return urllib.request.build_opener(_NoRedirects, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_NoRedirects)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes every redirect an `HTTPError` with its status."""

    def redirect_request(self, *_: object) -> None:
        return None


def _is_this_machine(host: str) -> bool:
    """By its loopback addresses and names; 0.0.0.0 and [::] lead there too."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f".{host}".endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def _message(error: urllib.error.HTTPError) -> str:
    """The gateway's message, or the status of an answer that has none."""
    try:
        document = json.loads(error.read(_MAX_ANSWER_BYTES))
        return printable(document["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"{error.url} answered with status {error.code}"

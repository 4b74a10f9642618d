"""Read the live view of a server: one document, or a stream of events."""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from paceline.foundation.command_line.printable import printable
from paceline.foundation.servers.admin_request import opener_for
from paceline.foundation.servers.default_addresses import ADMIN_PORT, at_port

_TIMEOUT_S = 10.0
"""The server sends an event each second."""
_MAX_LINE_BYTES = 32 * 1024 * 1024
SCHEMA_VERSION = 1


class ServerProblem(Exception):
    """The live view cannot be read. The message says why, and what to do.

    It may quote the server, so characters that control a terminal are replaced.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(printable(message))
        self.may_pass = may_pass
        """Whether the same request may succeed later."""


class NoLiveView(ServerProblem):
    """The server answers and has no live view."""


@dataclass(frozen=True, slots=True)
class Server:
    """The admin port of a server. Raises `ValueError` for a URL that is none."""

    url: str
    key: str | None = None

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no http:// or https:// URL")

    def fetch(self) -> dict[str, Any]:
        """The history and the newest state. Raises `ServerProblem`."""
        with self._open("/dashboard/state") as answer:
            return _checked(self._decode(_line(answer)))

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and document of each event, until the stream ends. Raises `ServerProblem`."""
        with self._open("/dashboard/events") as answer:
            name = ""
            while line := _line(answer):
                field, _, value = line.rstrip(b"\n").partition(b": ")
                if field == b"event":
                    name = value.decode("utf-8", "replace")
                elif field == b"data":
                    document = self._decode(value)
                    yield name, _checked(document) if name == "history" else document

    def fetch_text(self, path: str) -> str:
        """The answer as text. Raises `ServerProblem`."""
        with self._open(path) as answer:
            try:
                return answer.read(_MAX_LINE_BYTES).decode("utf-8", "replace")
            except (OSError, http.client.HTTPException) as error:
                raise ServerProblem(f"the connection was lost ({error})", may_pass=True) from None

    def _open(self, path: str) -> contextlib.AbstractContextManager[BinaryIO]:
        headers = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        try:
            request = urllib.request.Request(f"{self.url.rstrip('/')}{path}", headers=headers)
            answer: BinaryIO = opener_for(request).open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ServerProblem(
                f"{self.url} cannot be reached ({reason}). Give the admin port of a running "
                f"paceline serve, by default {at_port(self.url, ADMIN_PORT)}",
                may_pass=True,
            ) from None
        return answer

    def _refused(self, error: urllib.error.HTTPError) -> ServerProblem:
        try:
            message = str(json.loads(error.read(100_000))["error"]["message"])
        except (OSError, ValueError, KeyError, TypeError):
            message = f"{self.url} answered with status {error.code}"
        if error.code == 401:
            return ServerProblem(
                f"{self.url} needs a key of its admin port: set PACELINE_ADMIN_KEY, or give "
                f"--admin-key ({message})"
            )
        if error.code == 404:
            return NoLiveView(
                f"{self.url} has no live view ({message}). Give the admin port of paceline serve, "
                f"by default {at_port(self.url, ADMIN_PORT)}, not the data port"
            )
        return ServerProblem(message, may_pass=error.code == 503)

    def _decode(self, text: bytes) -> dict[str, Any]:
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServerProblem(f"{self.url} sent no live view; is it the admin port of Paceline")
        return document


def _line(answer: BinaryIO) -> bytes:
    """The next line, or the rest. Raises `ServerProblem` when the connection fails."""
    try:
        line = answer.readline(_MAX_LINE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise ServerProblem(f"the connection was lost ({error})", may_pass=True) from None
    if len(line) == _MAX_LINE_BYTES:
        raise ServerProblem("the server sent a line that is too long")
    return line


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ServerProblem(
            f"the live view has schema version {version}; this paceline reads {SCHEMA_VERSION}. "
            "Use the paceline of the server's release"
        )
    return document

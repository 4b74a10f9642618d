"""`AuditLog`: one line of JSON for every change that somebody made, or tried, on the admin port.

With `keys.audit_file` the lines are appended to that file, else they are warnings in the log.
"""

from __future__ import annotations

import errno
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from paceline.gateway.http.asgi import Scope
from paceline.gateway.keys.access import Operator
from paceline.gateway.keys.record import KeysUnusable
from paceline.writable import check_writable_folder

logger = logging.getLogger(__name__)

_SECRET_FIELDS = ("key",)
_MAX_QUERY_CHARS = 500
_MAX_CHANGE_BYTES = 4096
"""A valid change is shorter; a body may have 8 MiB."""


@dataclass(slots=True)
class AuditEntry:
    """One request for a change, filled while it is answered."""

    at: str
    """UTC, ISO 8601."""
    method: str
    path: str
    query: str
    client: str | None
    """Address that the connection comes from."""
    holder: str | None = None
    """Holder of the key; None where the port requires no key or the key is unknown."""
    key_id: str | None = None
    role: str | None = None
    change: dict[str, Any] | None = None
    """The body, without secrets, and cut when it is long; None when it was not read."""
    status: int = 500
    """Of the answer."""
    error: str | None = None
    """Code of the error; None for a change that was made."""

    @classmethod
    def begin(cls, scope: Scope) -> AuditEntry:
        client = scope.get("client")
        return cls(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=scope["method"],
            path=scope["path"][:_MAX_QUERY_CHARS],
            query=bytes(scope["query_string"]).decode("latin-1")[:_MAX_QUERY_CHARS],
            client=client[0] if client else None,
        )

    def set_operator(self, operator: Operator) -> None:
        """Keep who sent the request."""
        self.holder, self.key_id, self.role = operator.name, operator.key_id, operator.role

    def set_change(self, body: dict[str, Any]) -> None:
        """Keep the body, with secrets replaced. Of a long one, keep the start of its JSON."""
        self.change = {
            name: "(secret)" if name in _SECRET_FIELDS else value for name, value in body.items()
        }
        text = msgspec.json.encode(self.change)
        if len(text) > _MAX_CHANGE_BYTES:
            self.change = {"start": text[:_MAX_CHANGE_BYTES].decode(errors="replace")}


class AuditLog:
    """Appends entries. Raises `KeysUnusable` when the file cannot be written at the start."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        check_audit_file(path)
        if path is not None:
            os.close(_open(path))

    def write(self, entry: AuditEntry) -> None:
        """Append one line. An entry that the file does not take goes to the log."""
        line = msgspec.json.encode(entry)
        if self._path is None:
            logger.warning("admin change: %s", line.decode())
            return
        try:
            descriptor = _open(self._path)  # opened each time, so that the file may be rotated
            try:
                os.write(descriptor, line + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            logger.error(
                "keys.audit_file %s cannot be written (%s); the entry is: %s",
                self._path, error.strerror, line.decode(),
            )  # fmt: skip


_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
"""Without blocking, a pipe that nobody reads is an error."""


def check_audit_file(path: Path | None) -> None:
    """Raise `KeysUnusable` unless lines can be appended to the file. Does not create it."""
    if path is None:
        return
    try:
        if os.path.lexists(path):
            os.close(os.open(path, _FLAGS))
        else:
            check_writable_folder(path.absolute().parent)
            if not path.absolute().parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "its folder does not exist")
    except OSError as error:
        raise KeysUnusable(
            f"keys.audit_file {path} cannot be written: {error.strerror}; set it to a path where a "
            "file can be created"
        ) from None


def _open(path: Path) -> int:
    return os.open(path, _FLAGS | os.O_CREAT, 0o600)

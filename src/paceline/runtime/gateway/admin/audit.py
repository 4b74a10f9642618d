"""`AuditLog`: one line of JSON for every change that somebody made, or tried, on the admin port.

With `keys.audit_file` the lines are appended to that file, else they are warnings in the log.

A line holds no secret, whatever was sent: no part of a request is kept before it has been checked.
Paths, methods, and names of fields are kept where this port knows them; names of replicas where
there is one of that name; values where they have passed their check.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from paceline.foundation.files.writable import check_creatable
from paceline.runtime.gateway.http.asgi import Scope
from paceline.runtime.gateway.keys.access import Operator
from paceline.runtime.gateway.keys.record import KeysUnusable

logger = logging.getLogger(__name__)

_SECRET_FIELDS = ("key",)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_NAMES_IN_QUERY = ("name", "replica")
_UNKNOWN = "(unknown)"
_NOT_CHECKED = "(not checked)"
_MAX_CHANGE_BYTES = 4096
"""Valid changes are shorter, but for the parameters of a policy."""


@dataclass(slots=True)
class AuditEntry:
    """One request for a change, filled while it is answered."""

    at: str
    """UTC, ISO 8601."""
    method: str
    path: str
    """One that this port serves, or "(unknown)"."""
    query: str
    """The names of replicas in it; "(unknown)" for one that does not exist."""
    client: str | None
    """Address that the connection comes from."""
    holder: str | None = None
    """Holder of the key; None where the port requires no key or the key is unknown."""
    key_id: str | None = None
    role: str | None = None
    change: dict[str, Any] | None = None
    """The fields of the body; None when it was not read. Values that have not passed a check and
    the names of unknown fields are left out, and a long body is cut."""
    status: int = 500
    """Of the answer."""
    error: str | None = None
    """Code of the error; None for a change that was made."""

    @classmethod
    def begin(
        cls, scope: Scope, paths: Collection[str], is_replica: Callable[[str], bool]
    ) -> AuditEntry:
        """`paths` are those of the port; `is_replica` says whether there is one of that name."""
        client, path, method = scope.get("client"), scope["path"], scope["method"]
        return cls(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=method if method in _METHODS else _UNKNOWN,
            path=path if path in paths else _UNKNOWN,
            query=_shown_query(bytes(scope["query_string"]), is_replica),
            client=client[0] if client else None,
        )

    def set_operator(self, operator: Operator) -> None:
        """Keep who sent the request."""
        self.holder, self.key_id, self.role = operator.name, operator.key_id, operator.role

    def note_fields(self, body: Mapping[str, Any], known: Collection[str]) -> None:
        """Keep which of the known fields a body has, which is not checked yet."""
        self.change = dict.fromkeys([name for name in known if name in body], _NOT_CHECKED)
        num_unknown = len(body) - len(self.change)
        if num_unknown:
            self.change["unknown_fields"] = num_unknown

    def set_change(self, checked: Mapping[str, Any]) -> None:
        """Keep the values of a body that has passed its check, without secrets. Of a long one,
        keep the start of its JSON."""
        self.change = {
            name: "(secret)" if name in _SECRET_FIELDS else value for name, value in checked.items()
        }
        text = msgspec.json.encode(self.change)
        if len(text) > _MAX_CHANGE_BYTES:
            self.change = {"start": text[:_MAX_CHANGE_BYTES].decode(errors="replace")}


def name_in_audit(name: str, is_replica: Callable[[str], bool]) -> str:
    """The name of a replica that a request gives, if there is one."""
    return name if is_replica(name) else _UNKNOWN


def _shown_query(query: bytes, is_replica: Callable[[str], bool]) -> str:
    try:
        given = parse_qsl(query.decode("latin-1"), max_num_fields=10)
    except ValueError:  # more fields
        return _UNKNOWN
    return "&".join(
        f"{name}={name_in_audit(value, is_replica)}" if name in _NAMES_IN_QUERY else _UNKNOWN
        for name, value in given
    )


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
            check_creatable(path)
    except OSError as error:
        raise KeysUnusable(
            f"keys.audit_file {path} cannot be written: {error.strerror}; set it to a path where a "
            "file can be created"
        ) from None


def _open(path: Path) -> int:
    return os.open(path, _FLAGS | os.O_CREAT, 0o600)

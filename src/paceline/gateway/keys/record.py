"""What does the file say of one key?

A JSON object per line; empty lines and lines that begin with # are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import msgspec

from paceline.gateway.keys.key_text import ID_PATTERN

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Chosen by hand: 10,000 keys of 250 bytes, with room. A longer file was written by mistake."""
MAX_KEYS = 10_000

_ID = re.compile(ID_PATTERN)
_TENANT = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
_FIELD = re.compile(r"[A-Za-z0-9_]{1,64}")
_HASH = re.compile(r"[0-9a-f]{64}")
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class KeysUnusable(Exception):
    """A file of keys cannot be used; the message says which, where in it, and why."""


class KeyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One key as it is kept. ValueError says which part makes no sense."""

    id: str
    tenant: str
    secret_sha256: str
    created_at: _Moment
    expires_at: _Moment | None = None
    granted_fields: tuple[str, ...] = ()
    """Engine fields that its holder may use, beside those that all may."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError("id is not 8 characters of a to z and 2 to 7")
        if not _TENANT.fullmatch(self.tenant):
            raise ValueError(
                f"tenant is {self.tenant[:100]!r}; allowed are 1 to 64 letters, digits and . _ : -"
            )
        if not _HASH.fullmatch(self.secret_sha256):
            raise ValueError("secret_sha256 is not 64 hexadecimal digits in lower case")
        for name in self.granted_fields:
            if not _FIELD.fullmatch(name):
                raise ValueError(f"granted_fields has {name[:100]!r}, which is no field's name")
            if name == "cache_salt":
                raise ValueError(
                    "granted_fields has cache_salt, which cannot be granted to a tenant: the "
                    "gateway sets it, to keep tenants apart in the engines' caches"
                )


_decode = msgspec.json.Decoder(KeyRecord).decode


def render_line(record: KeyRecord) -> str:
    """The record's line in the file, with its end."""
    return msgspec.json.encode(record).decode() + "\n"


def parse_lines(text: str) -> Iterator[tuple[str, KeyRecord | None]]:
    """Each line, with its end, and its record; None for comments.

    `KeysUnusable` names the first line that is wrong: a bad one, a repeated id, one key too many.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if not line.strip() or line.startswith("#"):
            yield line, None
            continue
        try:
            record = _decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise KeysUnusable(f"line {number}: {_in_words(error)}") from None
        if record.id in seen:
            raise KeysUnusable(
                f"line {number}: the id {record.id} is that of line {seen[record.id]}"
            )
        if len(seen) == MAX_KEYS:
            raise KeysUnusable(f"line {number}: there are more than {MAX_KEYS} keys")
        seen[record.id] = number
        yield line, record


def parse_records(text: str) -> tuple[KeyRecord, ...]:
    """All keys of a file."""
    return tuple(record for _, record in parse_lines(text) if record is not None)


def _in_words(error: Exception) -> str:
    """Without what stands in the line: a key may have been put there by mistake."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "it is not a JSON object"

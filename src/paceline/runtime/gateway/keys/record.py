"""API keys: their form `pl-<id>-<secret>`, and `KeyRecord`, the line of a file that stores one.

The id is public: it names the key in lists and logs. The secret has 160 random bits, so it cannot
be guessed, and a plain SHA-256 is enough to store: slow hashes protect passwords, which can be
guessed. A file has one JSON object per line; empty lines and lines that begin with # are comments.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import msgspec

from paceline.foundation.files.strict_files import StrictFileError, load_json
from paceline.runtime.gateway.keys.roles import Role

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Chosen empirically: 10,000 keys of 250 bytes, with a margin. A longer file is a mistake."""
MAX_KEYS = 10_000

_ID_PATTERN = r"[a-z2-7]{8}"
_KEY = re.compile(rf"pl-({_ID_PATTERN})-([a-z2-7]{{32}})")
_ID = re.compile(_ID_PATTERN)
_TENANT = re.compile(r"[A-Za-z0-9._:\-]{1,64}")
_FIELD = re.compile(r"[A-Za-z0-9_]{1,64}")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""Ends where an editor and `grep` end it; `splitlines` also ends it at a form feed or U+2028."""
_HASH = re.compile(r"[0-9a-f]{64}")
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_NUM_ID_BYTES = 5
_NUM_SECRET_BYTES = 20


class KeysUnusable(Exception):
    """A file of keys cannot be used. The message names the file, the line and the reason."""


class KeyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One key as stored. Raises ValueError that names the invalid part."""

    id: str
    tenant: str
    secret_sha256: str
    created_at: _Moment
    expires_at: _Moment | None = None
    granted_fields: tuple[str, ...] = ()
    """Engine fields that its holder may use in addition to those that every client may use."""
    captured: bool | msgspec.UnsetType = msgspec.UNSET
    """False: requests with this key are never captured. Left out otherwise."""
    role: Role | None = None
    """What a key of the admin port may do; None for everything, and for keys of the data port."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError("id is not 8 characters of a to z and 2 to 7")
        if not _TENANT.fullmatch(self.tenant):
            raise ValueError(
                f"tenant is {self.tenant[:100]!r}; it must be 1 to 64 letters, digits and . _ : -"
            )
        if not _HASH.fullmatch(self.secret_sha256):
            raise ValueError("secret_sha256 is not 64 hexadecimal digits in lower case")
        for name in self.granted_fields:
            if not _FIELD.fullmatch(name):
                raise ValueError(
                    f"granted_fields has {name[:100]!r}, which is not the name of a field"
                )
            if name == "cache_salt":
                raise ValueError(
                    "granted_fields has cache_salt, which cannot be granted to a tenant: the "
                    "gateway sets it, to separate tenants in the engines' caches"
                )


_decode = msgspec.json.Decoder(KeyRecord).decode


def make_key() -> tuple[str, str]:
    """A new key: (id, secret)."""
    return _random_text(_NUM_ID_BYTES), _random_text(_NUM_SECRET_BYTES)


def join_key(key_id: str, secret: str) -> str:
    """The key as the client sends it."""
    return f"pl-{key_id}-{secret}"


def split_key(text: str) -> tuple[str, str] | None:
    """(id, secret) of a key that a client sent; None when it has another form."""
    match = _KEY.fullmatch(text)
    return (match[1], match[2]) if match else None


def hash_secret(secret: str) -> str:
    """The stored form of a secret: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def render_line(record: KeyRecord) -> str:
    """The record's line in the file, with its newline."""
    return msgspec.json.encode(record).decode() + "\n"


def parse_lines(text: str) -> Iterator[tuple[str, KeyRecord | None]]:
    """Each line, with its newline, and its record; None for comments.

    `KeysUnusable` names the first bad line: invalid, with a repeated id, or past `MAX_KEYS`.
    """
    seen: dict[str, int] = {}
    for number, line in enumerate(_LINE.findall(text), start=1):
        if not line.strip() or line.startswith("#"):
            yield line, None
            continue
        try:
            load_json(line)  # msgspec would let the last of two equal keys win
            record = _decode(line)
        except StrictFileError as error:
            repeated = "the key " in str(error)
            raise KeysUnusable(
                f"line {number}: {error if repeated else 'it is not a JSON object'}"
            ) from None
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise KeysUnusable(f"line {number}: {_explain(error)}") from None
        if record.id in seen:
            raise KeysUnusable(
                f"line {number}: the id {record.id} is also on line {seen[record.id]}"
            )
        if len(seen) == MAX_KEYS:
            raise KeysUnusable(f"line {number}: there are more than {MAX_KEYS} keys")
        seen[record.id] = number
        yield line, record


def parse_records(text: str) -> tuple[KeyRecord, ...]:
    """All keys of a file."""
    return tuple(record for _, record in parse_lines(text) if record is not None)


def _explain(error: Exception) -> str:
    """The reason, without the content of the line: it may hold a key by mistake."""
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "it is not a JSON object"


def _random_text(num_bytes: int) -> str:
    """Base32 in lower case: easy to read aloud and copy, valid in any file. `num_bytes` is a
    multiple of five, so there is no padding."""
    return base64.b32encode(secrets.token_bytes(num_bytes)).decode().lower()

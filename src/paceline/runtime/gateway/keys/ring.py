"""`KeyRing`: the decision from an Authorization header to a tenant or to an error."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.keys.record import KeyRecord, hash_secret, split_key
from paceline.runtime.gateway.keys.roles import Role

_NO_HASH = "0" * 64
"""Compared with when the id is unknown, so both cases take equally long. No known secret has this
hash."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The holder of a key, as far as one request is concerned."""

    name: str
    granted_fields: frozenset[str]
    """Engine fields that this key may use in addition to those that every client may use."""
    key_id: str
    """Public part of the key; may be logged."""
    role: Role = Role.ADMIN
    """What it may do on the admin port; without meaning on the data port."""
    may_be_captured: bool = True
    """Whether its prompts may be captured, where that is on."""


class KeyRing:
    """The keys of one file at one moment. Immutable."""

    def __init__(self, records: Iterable[KeyRecord]) -> None:
        self._records = {record.id: record for record in records}

    def authenticate(self, authorization: str | None, now_s: float) -> Tenant | Problem:
        """The tenant that an `Authorization` header names, or a 401.

        `now_s` is Unix time. The answer is the same for an unknown id and for a wrong secret, and
        takes equally long. Only a client that has the secret learns that a key has expired.
        """
        if authorization is None:
            return unauthorized("The request has no API key; send it as Authorization: Bearer KEY.")
        scheme, _, token = authorization.partition(" ")
        key_id, secret = split_key(token.strip()) or ("", "")
        record = self._records.get(key_id)
        expected = _NO_HASH if record is None else record.secret_sha256
        is_right = hmac.compare_digest(hash_secret(secret), expected)
        if record is None or not is_right or scheme.lower() != "bearer":
            return unauthorized("This API key is unknown; it is wrong or was revoked.")
        if record.expires_at is not None and record.expires_at.timestamp() <= now_s:
            return unauthorized(f"This API key expired at {record.expires_at.isoformat()}.")
        return _holder(record)

    def holder_of(self, key_id: str, now_s: float) -> Tenant | None:
        """The holder of the key with this id, for a session that has presented the key before;
        None where it was revoked or has expired."""
        record = self._records.get(key_id)
        if record is None:
            return None
        if record.expires_at is not None and record.expires_at.timestamp() <= now_s:
            return None
        return _holder(record)

    def __len__(self) -> int:
        return len(self._records)


def _holder(record: KeyRecord) -> Tenant:
    return Tenant(
        record.tenant,
        frozenset(record.granted_fields),
        record.id,
        Role.ADMIN if record.role is None else record.role,
        may_be_captured=record.captured is not False,
    )


def unauthorized(message: str) -> Problem:
    """A 401 for a request whose body has not been read."""
    return Problem(401, message, "invalid_api_key", closes_connection=True)


def granted_to(tenant: Tenant | None, granted_to_all: frozenset[str]) -> frozenset[str]:
    """Engine fields that a request may use although they are refused by default.

    Tenants never get `cache_salt`: with the salt of another tenant one could probe its cache.
    """
    if tenant is None:
        return granted_to_all
    return (granted_to_all | tenant.granted_fields) - {"cache_salt"}

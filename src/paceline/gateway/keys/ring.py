"""Whose key is this?

A decision: from a header, the keys and the time to a tenant or to what the client reads.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from paceline.gateway.http.errors import Problem
from paceline.gateway.keys.key_text import hash_secret, split_key
from paceline.gateway.keys.record import KeyRecord

_NOBODY = "0" * 64
"""Compared with when the id is unknown, so that this takes as long. No secret has this hash."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who sends a request."""

    name: str
    granted_fields: frozenset[str]
    """Engine fields that this key may use beside those that all may."""
    key_id: str
    """Public part of the key; fit for logs."""


class KeyRing:
    """Keys as known at this moment. Immutable."""

    def __init__(self, records: Iterable[KeyRecord]) -> None:
        self._records = {record.id: record for record in records}

    def authenticate(self, authorization: str | None, now_s: float) -> Tenant | Problem:
        """The tenant behind an `Authorization` header, or a 401.

        `now_s` is Unix time. The answer does not tell an unknown id from a wrong secret, and takes
        as long for both. That a key expired is told only to whoever has its secret.
        """
        if authorization is None:
            return unauthorized("There is no API key; send it as Authorization: Bearer KEY.")
        scheme, _, token = authorization.partition(" ")
        key_id, secret = split_key(token.strip()) or ("", "")
        record = self._records.get(key_id)
        expected = _NOBODY if record is None else record.secret_sha256
        is_right = hmac.compare_digest(hash_secret(secret), expected)
        if record is None or not is_right or scheme.lower() != "bearer":
            return unauthorized("This API key is not known here; it is wrong or was revoked.")
        if record.expires_at is not None and record.expires_at.timestamp() <= now_s:
            return unauthorized(f"This API key expired at {record.expires_at.isoformat()}.")
        return Tenant(record.tenant, frozenset(record.granted_fields), record.id)

    def __len__(self) -> int:
        return len(self._records)


def unauthorized(message: str) -> Problem:
    """A 401; the body of its request has not been read."""
    return Problem(401, message, "invalid_api_key", closes_connection=True)


def granted_to(tenant: Tenant | None, granted_to_all: frozenset[str]) -> frozenset[str]:
    """Engine fields that a request may use.

    Not `cache_salt` where there are tenants: with another's salt, one could read its cache.
    """
    if tenant is None:
        return granted_to_all
    return (granted_to_all | tenant.granted_fields) - {"cache_salt"}

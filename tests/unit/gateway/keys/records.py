"""A valid `KeyRecord` and its secret, for the tests of keys."""

from __future__ import annotations

from datetime import UTC, datetime

from paceline.runtime.gateway.keys.record import KeyRecord, hash_secret

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "a" * 32


def record(**changes: object) -> KeyRecord:
    """A record of the secret `SECRET`, changed as given."""
    values: dict[str, object] = {
        "id": "abcdefgh",
        "tenant": "acme",
        "secret_sha256": hash_secret(SECRET),
        "created_at": CREATED,
    }
    return KeyRecord(**{**values, **changes})  # type: ignore[arg-type]

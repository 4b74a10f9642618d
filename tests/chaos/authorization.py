"""The header with an API key."""

from __future__ import annotations


def authorization(key: str) -> dict[str, str]:
    """The header that carries the key; none for an empty key."""
    return {"authorization": f"Bearer {key}"} if key else {}

"""Choose what training must not see by a hash, so that a choice never changes as data is added."""

from __future__ import annotations

import hashlib


def is_held_out(name: str, per_thousand: int) -> bool:
    """Return whether the item is held out; depends on `name` and the share alone."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 1000 < per_thousand

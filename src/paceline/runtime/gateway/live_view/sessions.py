"""`Sessions`: who has logged in to the live view with an admin key.

In memory only: a restart of the gateway ends all sessions. A session holds the id of a key, never
the key; what the key may do is looked up for every request, so a revoked key ends its sessions.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from paceline.runtime.gateway.time_limits import LIVE_VIEW_SESSION_S

MAX_SESSIONS = 64
"""The oldest ends when another one begins. Chosen empirically: more than a team has browsers."""
MAX_SESSIONS_PER_KEY = 8
"""So that one key cannot end the sessions of the others by logging in. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class _Session:
    key_id: str
    ends_at_s: float


class Sessions:
    """The open sessions, oldest first. `now_s` is a monotonic clock."""

    def __init__(self) -> None:
        self._by_hash: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, key_id: str, now_s: float) -> str:
        """Begin a session of this key; its token has 256 random bits and is kept as a hash."""
        token = secrets.token_urlsafe(32)
        of_key = [kept for kept, session in self._by_hash.items() if session.key_id == key_id]
        for oldest in of_key[: max(0, len(of_key) - MAX_SESSIONS_PER_KEY + 1)]:
            del self._by_hash[oldest]
        while len(self._by_hash) >= MAX_SESSIONS:
            del self._by_hash[next(iter(self._by_hash))]
        self._by_hash[_hash(token)] = _Session(key_id, now_s + LIVE_VIEW_SESSION_S)
        return token

    def key_id_of(self, token: str, now_s: float) -> str | None:
        """The id of the key; None for an unknown token and for a session that has ended."""
        session = self._by_hash.get(_hash(token))
        if session is None:
            return None
        if session.ends_at_s <= now_s:
            self.close(token)
            return None
        return session.key_id

    def close(self, token: str) -> None:
        """End the session, if there is one."""
        self._by_hash.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()

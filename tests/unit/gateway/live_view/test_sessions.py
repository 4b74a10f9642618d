"""Sessions are bounded in number and in time."""

from __future__ import annotations

from paceline.runtime.gateway.live_view.sessions import (
    MAX_SESSIONS,
    MAX_SESSIONS_PER_KEY,
    Sessions,
)
from paceline.runtime.gateway.time_limits import LIVE_VIEW_SESSION_S


def test_a_token_names_the_key_of_its_session() -> None:
    sessions = Sessions()
    token, other = sessions.open("key-1", 0.0), sessions.open("key-2", 0.0)
    assert (sessions.key_id_of(token, 1.0), sessions.key_id_of(other, 1.0)) == ("key-1", "key-2")
    assert sessions.key_id_of(token[:-1], 1.0) is None
    assert sessions.key_id_of("", 1.0) is None


def test_a_session_ends_with_its_time() -> None:
    sessions = Sessions()
    token = sessions.open("key", 100.0)
    assert sessions.key_id_of(token, 100.0 + LIVE_VIEW_SESSION_S - 1) == "key"
    assert sessions.key_id_of(token, 100.0 + LIVE_VIEW_SESSION_S) is None
    assert len(sessions) == 0


def test_a_session_ends_at_logout() -> None:
    sessions = Sessions()
    token = sessions.open("key", 0.0)
    sessions.close(token)
    sessions.close(token)
    assert sessions.key_id_of(token, 1.0) is None


def test_the_oldest_session_makes_room() -> None:
    sessions = Sessions()
    tokens = [sessions.open(f"key-{i}", float(i)) for i in range(MAX_SESSIONS + 1)]
    assert len(sessions) == MAX_SESSIONS
    assert sessions.key_id_of(tokens[0], 70.0) is None
    assert sessions.key_id_of(tokens[1], 70.0) == "key-1"


def test_a_key_that_logs_in_again_and_again_ends_only_its_own_sessions() -> None:
    sessions = Sessions()
    other = sessions.open("other", 0.0)
    tokens = [sessions.open("key", 1.0) for _ in range(2 * MAX_SESSIONS)]
    assert sessions.key_id_of(other, 2.0) == "other"
    still_open = [sessions.key_id_of(token, 2.0) is not None for token in tokens]
    assert still_open.index(True) == len(tokens) - MAX_SESSIONS_PER_KEY
    assert sum(still_open) == MAX_SESSIONS_PER_KEY == 8


def test_tokens_are_not_kept() -> None:
    sessions = Sessions()
    token = sessions.open("key", 0.0)
    assert token not in repr(vars(sessions))
    assert len(token) >= 43  # 256 bits in base64

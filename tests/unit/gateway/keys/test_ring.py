"""A key ring finds the tenant of a key, and answers everything else with the same 401."""

from __future__ import annotations

import hmac
from datetime import timedelta

import pytest

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.keys.record import hash_secret
from paceline.runtime.gateway.keys.ring import KeyRing, Tenant, granted_to
from unit.gateway.keys.records import CREATED, SECRET, record

EXPIRES = CREATED + timedelta(days=1)
RING = KeyRing(
    [
        record(granted_fields=("priority",)),
        record(id="expiring", tenant="late", expires_at=EXPIRES),
    ]
)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_known_key_gives_its_tenant(scheme: str) -> None:
    found = RING.authenticate(f"{scheme} pl-abcdefgh-{SECRET}", 0)
    assert found == Tenant("acme", frozenset({"priority"}), "abcdefgh")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        SECRET,
        f"pl-abcdefgh-{SECRET}",
        f"Basic pl-abcdefgh-{SECRET}",
        f"Bearer pl-abcdefgh-{'b' * 32}",
        f"Bearer pl-abcdefgh-{SECRET}a",
        f"Bearer pl-abcdefgh-{SECRET[:-1]}",
        f"Bearer pl-abcdefgh-{SECRET.upper()}",
        f"Bearer pl-unknown2-{SECRET}",
        f"Bearer pl--{SECRET}",
        f"Bearer pl-abcdefgh-{hash_secret(SECRET)[:32]}",
        "Bearer pl-abcdefgh-é" + "a" * 31,
        "Bearer " + "x" * 100_000,
    ],
)
def test_anything_else_is_a_401_that_asks_for_a_bearer(authorization: str | None) -> None:
    problem = RING.authenticate(authorization, 0)
    assert isinstance(problem, Problem)
    assert (problem.status, problem.code) == (401, "invalid_api_key")
    assert (b"www-authenticate", b"Bearer") in problem.headers()
    assert SECRET not in problem.message


def test_unknown_ids_and_wrong_secrets_get_the_same_answer_in_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both cases compare two hashes once, so the response time differs in neither."""
    compared = []

    def compare(given: str, expected: str) -> bool:
        compared.append((len(given), len(expected)))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    answers = [
        RING.authenticate(f"Bearer pl-{key_id}-{'c' * 32}", 0)
        for key_id in ("abcdefgh", "unknown2")
    ]
    assert answers[0] == answers[1]
    assert compared == [(64, 64), (64, 64)]


def test_a_key_expires_at_its_date_and_only_its_holder_learns_that() -> None:
    holder, other = f"Bearer pl-expiring-{SECRET}", f"Bearer pl-expiring-{'b' * 32}"
    before_s, at_s = EXPIRES.timestamp() - 0.001, EXPIRES.timestamp()
    assert isinstance(RING.authenticate(holder, before_s), Tenant)
    expired, wrong = RING.authenticate(holder, at_s), RING.authenticate(other, at_s)
    assert isinstance(expired, Problem)
    assert isinstance(wrong, Problem)
    assert "expired at 2026-01-02" in expired.message
    assert "expired" not in wrong.message


def test_a_session_of_a_key_has_the_holder_until_the_key_expires_or_is_revoked() -> None:
    at_s = EXPIRES.timestamp()
    holder = RING.holder_of("expiring", at_s - 0.001)
    assert holder is not None
    assert (holder.name, holder.key_id) == ("late", "expiring")
    assert RING.holder_of("expiring", at_s) is None
    assert RING.holder_of("unknown2", 0) is None


def test_grants_add_up_and_never_hold_the_cache_salt() -> None:
    tenant = Tenant("acme", frozenset({"priority"}), "abcdefgh")
    assert granted_to(tenant, frozenset({"ignore_eos", "cache_salt"})) == {"priority", "ignore_eos"}
    assert granted_to(None, frozenset({"cache_salt"})) == {"cache_salt"}

"""Requests that no replica can serve now are refused before they wait."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paceline.gateway.http.errors import Refusal
from paceline.gateway.replicas import Replica
from paceline.gateway.requests.routes import CHAT
from paceline.gateway.requests.served import check_served
from paceline.gateway.requests.validation import check_request
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL

READY = Replica("r0", "/r0.sock", MODEL, "ready", max_model_len=2048)
DOWN = replace(READY, name="r1", state="down")
DRAFTING = replace(READY, name="r2", drafts=True)


def status_of(*replicas: Replica, **fields: object) -> int:
    """200 for a request that is not refused."""
    request = check_request(CHAT, json.dumps(chat(**fields)).encode(), SETTINGS)
    try:
        check_served(request, replicas, retry_after_s=5)
    except Refusal as refusal:
        return refusal.problem.status
    return 200


@pytest.mark.parametrize(
    ("replicas", "fields", "status"),
    [
        ((READY,), {}, 200),
        ((DOWN, READY), {}, 200),
        ((DOWN,), {}, 503),
        ((), {}, 404),
        ((READY,), {"model": "other"}, 404),
        ((READY, replace(DOWN, model="")), {"model": "other"}, 503),
        ((DRAFTING,), {"min_p": 0.1}, 400),
        ((DRAFTING, DOWN), {"min_p": 0.1}, 503),
        ((DRAFTING, READY), {"min_p": 0.1}, 200),
    ],
)
def test_a_request_is_refused_unless_a_ready_replica_can_serve_it(
    replicas: tuple[Replica, ...], fields: dict[str, object], status: int
) -> None:
    assert status_of(*replicas, **fields) == status

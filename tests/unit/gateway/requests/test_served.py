"""Requests that no replica can serve now are refused before they wait."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.routes import CHAT, EMBEDDINGS
from paceline.runtime.gateway.requests.served import check_served, most_sequences
from paceline.runtime.gateway.requests.validation import check_request
from paceline.runtime.gateway.settings import AdmissionSettings
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


@pytest.mark.parametrize(("n", "most"), [(1, 8), (8, 8), (9, None)])
def test_a_request_may_ask_for_as_many_answers_as_the_largest_replica_computes(
    n: int, most: int | None
) -> None:
    """Replicas that cannot serve the request do not count."""
    settings = replace(SETTINGS, max_choices=64)
    body = json.dumps(chat(n=n, min_p=0.1)).encode()
    request = check_request(CHAT, body, settings)
    replicas = [
        replace(READY, max_in_flight=8),
        replace(READY, name="r3"),
        replace(DRAFTING, max_in_flight=100),
    ]
    admission = AdmissionSettings(max_in_flight=4)
    if most is not None:
        assert most_sequences(request, replicas, admission) == most
        return
    with pytest.raises(Refusal) as refused:
        most_sequences(request, replicas, admission)
    assert (refused.value.problem.status, refused.value.problem.param) == (400, "n")


def test_embeddings_of_any_number_of_texts_are_accepted() -> None:
    body = json.dumps({"model": MODEL, "input": ["a"] * 300}).encode()
    request = check_request(EMBEDDINGS, body, SETTINGS)
    assert most_sequences(request, [READY], AdmissionSettings(max_in_flight=4)) == 4

"""The plan of a request: its cost, its tenant, its session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paceline.runtime.gateway.keys.ring import Tenant
from paceline.runtime.gateway.requests.plan import NO_COST, RequestCost, RequestPlan, make_plan
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, Route
from paceline.runtime.gateway.requests.validation import check_request
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL


def plan(route: Route, body: dict[str, Any], **known: Any) -> RequestPlan:
    request = check_request(route, json.dumps({"model": MODEL, **body}).encode(), SETTINGS)
    known = {"max_sequences": 1000, **known}
    return make_plan(request, request_id="id", deadline_at_s=7.0, **known)


@pytest.mark.parametrize(
    ("route", "body", "expected"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "x" * 400}]}, RequestCost(1, 100, 256)),
        (CHAT, chat(n=3, max_tokens=10), RequestCost(3, 1, 30)),
        (CHAT, chat(max_completion_tokens=10, max_tokens=500), RequestCost(1, 1, 10)),
        (COMPLETIONS, {"prompt": ["a" * 8] * 64, "n": 8}, RequestCost(512, 128, 512 * 256)),
        (COMPLETIONS, {"prompt": [7] * 9, "max_tokens": 0}, RequestCost(1, 9, 0)),
        (COMPLETIONS, {"prompt": [[7] * 9, [7]], "max_tokens": 5}, RequestCost(2, 10, 10)),
        (EMBEDDINGS, {"input": ["a" * 40] * 300}, RequestCost(300, 3000, 0)),
        (RESPONSES, {"input": "a" * 40, "max_output_tokens": 6}, RequestCost(1, 10, 6)),
    ],
)
def test_the_cost_counts_every_sequence(
    route: Route, body: dict[str, Any], expected: RequestCost
) -> None:
    """Text is estimated at four characters a token, an unlimited answer at 256 tokens."""
    assert plan(route, body).cost == expected


def test_costs_add_up_and_subtract() -> None:
    one, other = RequestCost(1, 2, 3), RequestCost(10, 20, 30)
    assert one + other == RequestCost(11, 22, 33)
    assert one + other - other - one == NO_COST


def test_a_cost_is_limited_to_what_a_replica_computes_at_a_time() -> None:
    assert RequestCost(300, 3000, 0).at_most(256) == RequestCost(256, 3000, 0)
    assert RequestCost(3, 4, 5).at_most(256) == RequestCost(3, 4, 5)
    assert plan(EMBEDDINGS, {"input": ["a"] * 300}, max_sequences=8).cost.num_sequences == 8


def test_the_plan_names_tenant_salt_session_and_deadline() -> None:
    tenant = Tenant("acme", frozenset(), "key1")
    made = plan(CHAT, chat(prompt_cache_key="s1"), tenant=tenant, cache_salt="salt")
    assert (made.tenant, made.cache_salt, made.session) == ("acme", "salt", "s1")
    assert (made.model, made.request_id, made.deadline_at_s) == (MODEL, "id", 7.0)
    anonymous = plan(CHAT, chat(prompt_cache_key=""))
    assert (anonymous.tenant, anonymous.cache_salt, anonymous.session) == (None, None, None)

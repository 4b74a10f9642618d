"""The field `speculation`: taken out of the body, sent as vLLM's own field, and only to replicas
that keep to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.engine.scheduler import request_parameters
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests import draft_cap
from paceline.runtime.gateway.requests.capabilities import can_serve, explain_unserved
from paceline.runtime.gateway.requests.needs import Needs
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, RESPONSES
from unit.gateway.conftest import Serve, chat
from unit.gateway.fake_engine import MODEL, FakeEngine

OFF = {"max_draft_length": 0}
NEEDS = Needs(caps_drafts=True)


def honouring(replica: Replica, **changes: Any) -> Replica:
    return replace(replica, honours_draft_caps=True, **changes)


def test_gateway_and_engine_use_the_same_names() -> None:
    assert draft_cap.ENGINE_KEY == request_parameters.FLAT_CAP


def test_only_a_replica_that_keeps_to_caps_can_serve() -> None:
    replica = Replica("r", "/r.sock", MODEL, "ready")
    assert not can_serve(replica, NEEDS)
    assert can_serve(honouring(replica), NEEDS)
    assert can_serve(replica, Needs())


def test_where_no_replica_keeps_to_caps_the_field_is_named() -> None:
    problem = explain_unserved(NEEDS)
    assert (problem.status, problem.code) == (400, "unsupported_parameter")
    assert problem.param == "speculation"
    assert "Leave it out" in problem.message


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "request_fields"),
    [
        (CHAT.path, chat()),
        (CHAT.path, chat(n=2)),
        (COMPLETIONS.path, {"model": MODEL, "prompt": "x"}),
        (RESPONSES.path, {"model": MODEL, "input": "x"}),
    ],
)
async def test_the_engine_gets_the_cap_in_its_own_field(
    serve: Serve, path: str, request_fields: dict[str, Any], stream: bool
) -> None:
    async with serve() as served:
        served.source.current = [honouring(served.source.current[0], drafts=True)]
        sent = {**request_fields, "stream": stream, "speculation": {"max_draft_length": 2}}
        answer = await served.http.post(path, json=sent)
        assert answer.status_code == 200, answer.text
        [body] = map(json.loads, served.engine.bodies)
        assert "speculation" not in body
        assert body["vllm_xargs"] == {"paceline_max_draft_length": 2}
        assert {name: body[name] for name in request_fields} == request_fields


async def test_arguments_that_the_client_may_send_are_kept(serve: Serve) -> None:
    async with serve(granted_fields=frozenset({"vllm_xargs"})) as served:
        served.source.current = [honouring(served.source.current[0])]
        sent = chat(speculation=OFF, vllm_xargs={"session_id": "s"})
        assert (await served.http.post(CHAT.path, json=sent)).status_code == 200
        [body] = map(json.loads, served.engine.bodies)
        assert body["vllm_xargs"] == {"session_id": "s", "paceline_max_draft_length": 0}


async def test_null_sets_no_cap_and_does_not_reach_the_engine(serve: Serve) -> None:
    async with serve() as served:
        assert (await served.http.post(CHAT.path, json=chat(speculation=None))).status_code == 200
        [body] = map(json.loads, served.engine.bodies)
        assert {"speculation", "vllm_xargs"}.isdisjoint(body)


async def test_a_replica_that_would_ignore_the_cap_is_not_chosen(
    serve: Serve, tmp_path: Path
) -> None:
    """Nor is the request sent anywhere when only such replicas are left: a 400."""
    async with serve() as served, FakeEngine(tmp_path / "plain.sock") as ignoring:
        known = served.source.current[0]
        other = replace(known, name="ignoring", address=str(ignoring.socket), drafts=True)
        served.source.current = [other, honouring(known)]
        for _ in range(3):
            answer = await served.http.post(CHAT.path, json=chat(speculation=OFF))
            assert answer.status_code == 200, answer.text
        assert (ignoring.num_begun, served.engine.num_finished) == (0, 3)
        served.source.current = [other]
        answer = await served.http.post(CHAT.path, json=chat(speculation=OFF))
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "speculation")
        assert ignoring.num_begun == 0


@pytest.mark.parametrize(
    "wrong", [{}, {"max_draft_length": -1}, {"max_draft_length": "0"}, {"draft": 1}, 0, False]
)
async def test_a_wrong_value_is_refused_with_the_allowed_ones(serve: Serve, wrong: object) -> None:
    async with serve() as served:
        served.source.current = [honouring(served.source.current[0])]
        answer = await served.http.post(CHAT.path, json=chat(speculation=wrong))
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "speculation")
        assert '{"max_draft_length": N}' in error["message"]
        assert served.engine.num_begun == 0

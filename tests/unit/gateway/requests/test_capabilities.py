"""A request goes only to replicas that can serve it; without one, the client gets the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.capabilities import can_serve, explain_unserved
from paceline.runtime.gateway.requests.needs import Needs
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS
from paceline.runtime.gateway.requests.validation import check_request
from unit.gateway.conftest import SETTINGS, Serve, chat
from unit.gateway.fake_engine import MODEL, FakeEngine


def needs(**fields: object) -> Needs:
    return check_request(CHAT, json.dumps(chat(**fields)).encode(), SETTINGS).needs


def replica(**changes: Any) -> Replica:
    return Replica("r", "/r.sock", MODEL, "ready", **changes)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Needs()),
        ({"min_p": 0.1}, Needs(("min_p",))),
        ({"min_p": 1}, Needs(("min_p",))),
        ({"min_p": 1e-5}, Needs()),
        ({"min_p": None, "logit_bias": None}, Needs()),
        ({"logit_bias": {}}, Needs()),
        ({"logit_bias": {"1": 0}}, Needs(("logit_bias",))),
        ({"min_p": 0.1, "logit_bias": {"1": 5}}, Needs(("min_p", "logit_bias"))),
        ({"n": 2}, Needs(num_choices=2)),
        ({"n": None}, Needs()),
    ],
)
def test_a_request_needs_only_what_has_an_effect(
    fields: dict[str, object], expected: Needs
) -> None:
    assert needs(**fields) == expected


def test_several_prompts_are_not_several_choices() -> None:
    body = json.dumps({"model": MODEL, "prompt": ["a", "b", "c"], "n": 2}).encode()
    request = check_request(COMPLETIONS, body, SETTINGS)
    assert (request.num_prompts, request.num_choices) == (3, 6)
    assert request.needs == Needs(num_choices=2)


@pytest.mark.parametrize(
    ("needs", "drafting", "plain", "llamacpp"),
    [
        (Needs(), True, True, True),
        (Needs(("min_p",)), False, True, True),
        (Needs(("logit_bias",)), False, True, True),
        (Needs(num_choices=2), True, True, False),
    ],
)
def test_a_replica_serves_a_request_only_if_it_meets_its_needs(
    needs: Needs, drafting: bool, plain: bool, llamacpp: bool
) -> None:
    assert can_serve(replica(drafts=True), needs) is drafting
    assert can_serve(replica(drafts=True, serves_undrafted=True), needs)
    assert can_serve(replica(), needs) is plain
    assert can_serve(replica(dialect="llamacpp"), needs) is llamacpp
    assert can_serve(replica(dialect="llamacpp-python"), needs) is llamacpp


def test_where_all_replicas_draft_the_field_is_named() -> None:
    problem = explain_unserved(needs(min_p=0.1))
    assert (problem.status, problem.code, problem.param) == (400, "unsupported_parameter", "min_p")
    assert "Leave it out" in problem.message
    assert "--draft none" in problem.message


def test_where_no_replica_gives_several_answers_n_is_named() -> None:
    problem = explain_unserved(needs(n=3))
    assert (problem.status, problem.param) == (400, "n")
    assert "n must be 1 here, not 3" in problem.message


def test_the_decoded_body_is_kept() -> None:
    body = json.dumps(chat(seed=7)).encode()
    assert check_request(CHAT, body, SETTINGS).parsed == chat(seed=7)


@pytest.mark.parametrize("field", [{"min_p": 0.1}, {"logit_bias": {"5": 1}}])
async def test_what_drafting_forbids_goes_to_a_replica_that_does_not_draft(
    serve: Serve, tmp_path: Path, field: dict[str, object]
) -> None:
    async with serve() as served, FakeEngine(tmp_path / "drafting.sock") as drafting:
        plain = served.source.current[0]
        served.source.current = [
            replace(plain, name="drafting", address=str(drafting.socket), drafts=True),
            plain,
        ]
        for _ in range(3):
            answer = await served.http.post(CHAT.path, json=chat(**field))
            assert answer.status_code == 200, answer.text
        assert (drafting.num_begun, served.engine.num_finished) == (0, 3)


async def test_without_an_able_replica_no_engine_gets_the_request(serve: Serve) -> None:
    async with serve() as served:
        served.source.current = [replace(served.source.current[0], drafts=True)]
        answer = await served.http.post(CHAT.path, json=chat(min_p=0.1))
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "min_p")
        assert error["code"] == "unsupported_parameter"
        assert served.engine.num_begun == 0
        assert (await served.http.post(CHAT.path, json=chat(min_p=0))).status_code == 200

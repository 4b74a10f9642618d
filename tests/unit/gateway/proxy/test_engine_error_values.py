"""Statuses, codes and texts of engines' errors, without a server."""

from __future__ import annotations

import json

import pytest

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.engine_errors import (
    is_death,
    outcome_of,
    problem_of,
    scrub,
    status_in,
)
from paceline.runtime.gateway.requests.routes import COMPLETIONS


def problem(
    status: int, message: str, param: str | None = None, fields: tuple[str, ...] = ()
) -> Problem:
    body = json.dumps({"error": {"message": message, "param": param}}).encode()
    return problem_of(status, body, COMPLETIONS, frozenset(fields), 7)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "no", (400, "invalid_value", None)),
        *(
            (status, "no", (503, "engine_misdirected", 7))
            for status in (101, 201, 202, 204, 206, 299, 301, 302, 304, 307, 308, 401, 402, 403)
        ),
        *(
            (status, "no", (503, "engine_misdirected", 7))
            for status in (406, 407, 409, 410, 411, 414, 415, 417, 421, 426, 431, 451)
        ),
        (404, "no", (404, "not_found", None)),
        (404, "Not Found", (404, "route_not_served", None)),
        (405, "Method Not Allowed", (404, "route_not_served", None)),
        (405, "no", (400, "invalid_value", None)),
        (408, "no", (408, "engine_timeout", None)),
        (413, "no", (413, "body_too_large", None)),
        (422, "no", (400, "invalid_value", None)),
        (424, "no", (400, "invalid_value", None)),
        (429, "no", (429, "rate_limited", 7)),
        (499, "EngineCore encountered an issue", (503, "engine_misdirected", 7)),
        (500, "no", (500, "engine_error", None)),
        (500, "EngineCore encountered an issue", (503, "engine_unavailable", 7)),
        (501, "File Not Found", (404, "route_not_served", None)),
        (501, "no", (400, "invalid_value", None)),
        (502, "no", (503, "engine_unavailable", 7)),
        (503, "no", (503, "engine_unavailable", 7)),
        (504, "no", (503, "engine_unavailable", 7)),
        (505, "no", (500, "engine_error", None)),
        (400, "does not support Embeddings API", (400, "invalid_value", None)),
        (404, "The model does not support Embeddings API", (404, "route_not_served", None)),
    ],
)
def test_every_status_has_its_problem(
    status: int, message: str, expected: tuple[int, str, int | None]
) -> None:
    found = problem(status, message)
    assert (found.status, found.code, found.retry_after_s) == expected


def test_a_route_that_is_not_served_blames_the_model() -> None:
    found = problem(404, "Not Found")
    assert found.param == "model"
    assert found.message == "The engine of this model does not serve /v1/completions."


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("max_tokens is more than max_model_len", "max_tokens"),
        ("max_completion_tokens is more than max_model_len", "max_completion_tokens"),
        ("the prompt is longer than max_model_len", "prompt"),
    ],
)
def test_a_context_that_is_too_short_blames_what_made_it_so(message: str, param: str) -> None:
    found = problem(400, message)
    assert (found.code, found.param) == ("context_length_exceeded", param)


@pytest.mark.parametrize(
    ("fields", "beginning", "param"),
    [
        ((), "min_p and logit_bias cannot", None),
        (("min_p",), "min_p cannot", "min_p"),
        (("logit_bias", "seed"), "logit_bias cannot", "logit_bias"),
        (("logit_bias", "min_p"), "min_p and logit_bias cannot", "min_p"),
    ],
)
def test_fields_that_do_not_go_with_drafting_are_named(
    fields: tuple[str, ...], beginning: str, param: str | None
) -> None:
    found = problem(400, "x is not yet supported with speculative decoding", fields=fields)
    assert (found.status, found.code, found.param) == (400, "unsupported_parameter", param)
    assert found.message.startswith(beginning)


def pydantic(*messages: str) -> str:
    return "".join(f"{{'type': 'x', 'msg': '{message}', 'input': 1}}" for message in messages)


@pytest.mark.parametrize(
    ("text", "param", "shown"),
    [
        (pydantic("a", "b", "c", "d"), None, "a; b; c"),
        (pydantic("a", "b", "a", "d"), "body.seed", "seed: a; b"),
        (pydantic("a"), "seed", "seed: a"),
        ("""{'msg': "it's wrong"}""", None, "it's wrong"),
        ("plain", "body.seed", "plain"),
    ],
)
def test_the_first_reasons_of_a_validation_error_are_shown_once(
    text: str, param: str | None, shown: str
) -> None:
    assert problem(400, text, param).message == shown


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.ENGINE_REFUSED),
        (499, Outcome.ENGINE_REFUSED),
        (500, Outcome.ENGINE_ERROR),
        (503, Outcome.ENGINE_ERROR),
    ],
)
def test_a_5xx_is_an_error_of_the_engine(status: int, outcome: Outcome) -> None:
    assert outcome_of(Problem(status, "x", "y")) is outcome


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (b'{"error":{"code":404}}', 404),
        (b'{"code":404}', 404),
        (b'{"error":{"code":399}}', 500),
        (b'{"error":{"code":400}}', 400),
        (b'{"error":{"code":599}}', 599),
        (b'{"error":{"code":600}}', 500),
        (b'{"error":{"code":"404"}}', 404),
        (b'{"error":{"http_status_code":422}}', 422),
        (b'{"error":{}}', 500),
        (b'{"error":"x"}', 500),
        (b'{"error":"x","code":404}', 500),
        (b"[]", 500),
        (b"{broken", 500),
        (b"\xff", 500),
        (b"[" * 100_000, 500),
    ],
)
def test_the_status_of_an_error_event(event: bytes, status: int) -> None:
    assert status_in(event) == status


@pytest.mark.parametrize(
    ("error", "status"),
    [
        # of this gateway
        ({"code": "engine_unavailable", "type": "service_unavailable_error"}, 503),
        ({"code": "overloaded", "type": "service_unavailable_error"}, 503),
        ({"code": "server_stopping", "type": "service_unavailable_error"}, 503),
        ({"code": "engine_misdirected", "type": "service_unavailable_error"}, 503),
        ({"code": "engine_timeout", "type": "timeout_error"}, 504),
        ({"code": "rate_limited", "type": "rate_limit_error"}, 429),
        ({"code": "invalid_value", "type": "invalid_request_error"}, 400),
        ({"code": "engine_error", "type": "server_error"}, 500),
        ({"code": "internal_error", "type": "server_error"}, 500),
        # of others
        ({"code": "server_is_overloaded"}, 503),
        ({"code": "rate_limit_exceeded", "type": "tokens"}, 429),
        ({"code": "context_length_exceeded"}, 400),
        ({"code": None, "type": "service_unavailable_error"}, 503),
        ({"type": "overloaded_error"}, 503),
        ({"type": "ServiceUnavailableError"}, 503),
        ({"code": "503"}, 503),
        ({"code": "5030", "type": "x"}, 500),
        ({"code": 14, "status": "UNAVAILABLE"}, 503),
        ({"code": "x", "status": 503}, 503),
        ({"code": 500, "type": "service_unavailable_error"}, 500),
        ({"code": True, "type": ["timeout"]}, 500),
    ],
)
def test_an_error_event_may_name_its_status_in_words(error: dict[str, object], status: int) -> None:
    assert status_in(json.dumps({"error": error}).encode()) == status
    assert status_in(json.dumps(error).encode()) == status


def test_texts_are_cut_before_and_after_they_are_scrubbed() -> None:
    assert scrub(" " * 3999 + "ab") == "a"
    assert scrub("x" * 1000) == "x" * 1000
    assert scrub("x" * 1001) == "x" * 1000 + "…"


def test_paths_of_two_parts_are_paths_and_of_one_are_not() -> None:
    assert scrub("see /v1 and /opt/x") == "see /v1 and <path>"


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (500, "EngineCore encountered an issue. See the log.", True),
        (503, "EngineCore encountered an issue. See the log.", True),
        (400, "EngineCore encountered an issue. See the log.", False),
        (500, "list index out of range", False),
        (503, "the engine ended", False),
    ],
)
def test_an_engine_that_says_it_has_ended_is_dead(
    status: int, message: str, expected: bool
) -> None:
    body = b'{"error":{"message":"%s"}}' % message.encode()
    assert is_death(status, body) is expected

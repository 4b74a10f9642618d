"""Errors of servers that do not run here reach the client in OpenAI's form, with a true status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.gateway.conftest import Served, chat
from unit.gateway.other_servers.pinned import (
    SGLANG_ERROR,
    TGI_FAULT,
    TGI_INCOMPLETE,
    TGI_OVERLOADED,
    TGI_TOO_LONG,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN_MODEL = {"detail": "Unknown model: tiny"}


@pytest.mark.parametrize(
    ("dialect", "status", "body", "shown", "code"),
    [
        ("sglang", 400, SGLANG_ERROR, 400, "context_length_exceeded"),
        ("tgi", 422, {"error": TGI_TOO_LONG, "error_type": "validation"}, 400,
         "context_length_exceeded"),
        ("tgi", 429, {"error": TGI_OVERLOADED, "error_type": "overloaded"}, 429, "rate_limited"),
        ("tgi", 424, {"error": TGI_FAULT, "error_type": "generation"}, 500, "engine_error"),
        ("tgi", 500, {"error": TGI_INCOMPLETE, "error_type": "incomplete_generation"}, 500,
         "engine_error"),
        ("triton", 400, UNKNOWN_MODEL, 400, "invalid_value"),
        ("triton", 500, {"detail": "Unknown tokenizer"}, 500, "engine_error"),
    ],
)  # fmt: skip
async def test_an_error_has_the_form_and_the_status_that_clients_understand(
    served: Served, dialect: str, status: int, body: dict[str, object], shown: int, code: str
) -> None:
    served.source.current = [replace(served.replicas[0], dialect=dialect)]
    served.engine.mode, served.engine.refusal = "refuse", (status, body)
    answer = await served.http.post("/v1/chat/completions", json=chat())
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (shown, code)
    assert set(error) == {"message", "type", "param", "code"}
    refused = "engine_refused" if shown < 500 else "engine_error"
    assert await served.outcomes() == {refused: 1}

"""A 404 names the served path that the client meant."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.api.near_paths import nearest_path
from unit.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVED = (
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/models",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/v1/responses", "/v1/responses"),
        ("/v1/v1/v1/models", "/v1/models"),
        ("/responses", "/v1/responses"),
        ("/models/org/name", "/v1/models"),
        ("/embeddings/", "/v1/embeddings"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("//v1//completions", "/v1/completions"),
        ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
        ("/openai/deployments/m/chat/completions", "/v1/chat/completions"),
        ("/api/v1/models", "/v1/models"),
        ("/V1/Completions", "/v1/completions"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/v1/embedding", "/v1/embeddings"),
        ("/tokenize", None),
        ("/", None),
        ("", None),
    ],
)
async def test_the_path_that_was_meant_is_found(path: str, meant: str | None) -> None:
    assert nearest_path(path, SERVED) == meant


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/v1/v1/chat/completions", "it serves /v1/chat/completions. The base URL"),
        ("POST", "/chat/completions", "it serves /v1/chat/completions. The base URL"),
        ("GET", "/models", "it serves /v1/models. The base URL"),
        ("GET", "/v1/responses/abc", "it serves /v1/responses, and nothing below it."),
        ("POST", "/v1/responses/abc/cancel", "it serves /v1/responses, and nothing below it."),
        ("POST", "/v1/responses/", "it serves /v1/responses. The base URL"),
        ("POST", "/v1/responses/responses", "it serves /v1/responses. The base URL"),
        ("POST", "/v1/completions/chat/completions", "The base URL"),
        ("POST", "/v1/rerank", "it serves /v1/chat/completions, /v1/completions, /v1/embeddings"),
    ],
)
async def test_the_answer_names_it(served: Served, method: str, path: str, meant: str) -> None:
    answer = await served.http.request(method, path, json={})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
    assert meant in answer.json()["error"]["message"]

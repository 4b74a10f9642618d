"""Web pages of allowed origins may use the data port; those of others may not."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import join_key, render_line
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import Serve, chat
from unit.gateway.keys.records import SECRET, record

CHAT = "/v1/chat/completions"
PAGE = "https://chat.example"


def preflight(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization,content-type,x-stainless-lang",
    }


def allowed_origin(answer: httpx.Response) -> str | None:
    return answer.headers.get("access-control-allow-origin")


@pytest.mark.parametrize(
    ("path", "method", "methods"),
    [
        (CHAT, "POST", "POST"),
        ("/v1/responses", "POST", "POST"),
        ("/v1/models", "GET", "GET, HEAD"),
        ("/v1/models/tiny", "GET", "GET, HEAD"),
    ],
)
async def test_a_preflight_of_an_allowed_page_is_answered_without_a_key(
    serve: Serve, tmp_path: Path, path: str, method: str, methods: str
) -> None:
    change_text(tmp_path / "keys", lambda _: render_line(record()))
    keys = KeySettings(file=tmp_path / "keys")
    async with serve(keys=keys, allowed_origins=frozenset({PAGE})) as served:
        answer = await served.http.options(path, headers=preflight(PAGE, method))
        assert answer.status_code == 204
        assert answer.content == b""
        assert allowed_origin(answer) == PAGE
        assert answer.headers["access-control-allow-methods"] == methods
        assert "x-stainless-lang" in answer.headers["access-control-allow-headers"]
        assert answer.headers["vary"] == "origin"
        assert served.engine.num_begun == 0
        key = {"authorization": f"Bearer {join_key('abcdefgh', SECRET)}"}
        for headers, status in (({}, 401), (key, 200)):
            answer = await served.http.get("/v1/models", headers={"origin": PAGE, **headers})
            assert answer.status_code == status
            assert allowed_origin(answer) == PAGE


async def test_an_allowed_page_reads_answers_streams_and_errors(serve: Serve) -> None:
    async with serve(allowed_origins=frozenset({PAGE, "http://localhost:3000"})) as served:
        page = {"origin": PAGE}
        for body in (chat(), chat(stream=True), chat(temperature=-1)):
            answer = await served.http.post(CHAT, json=body, headers=page)
            assert allowed_origin(answer) == PAGE
            assert "retry-after" in answer.headers["access-control-expose-headers"]
        models = await served.http.get("/v1/models", headers={"origin": "http://localhost:3000"})
        assert allowed_origin(models) == "http://localhost:3000"
        assert allowed_origin(await served.http.get("/v1/models")) is None


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://chat.example", "null", PAGE + "."]
)
async def test_other_pages_are_refused_with_the_setting(serve: Serve, origin: str) -> None:
    async with serve(allowed_origins=frozenset({PAGE})) as served:
        answer = await served.http.options(CHAT, headers=preflight(origin))
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "origin_not_allowed"
        assert "server.allowed_origins" in answer.json()["error"]["message"]
        assert allowed_origin(answer) is None
        answer = await served.http.get("/v1/models", headers={"origin": origin})
        assert allowed_origin(answer) is None


async def test_a_star_allows_every_page(serve: Serve) -> None:
    async with serve(allowed_origins=frozenset({"*"})) as served:
        for origin in (PAGE, "null"):
            answer = await served.http.options(CHAT, headers=preflight(origin))
            assert answer.status_code == 204
            assert allowed_origin(answer) == "*"


async def test_without_the_setting_no_page_is_allowed(serve: Serve) -> None:
    async with serve() as served:
        answer = await served.http.options(CHAT, headers=preflight(PAGE))
        assert answer.status_code == 403
        answer = await served.http.post(CHAT, json=chat(), headers={"origin": PAGE})
        assert answer.status_code == 200
        assert allowed_origin(answer) is None


async def test_options_without_a_page_stays_a_405_and_other_paths_a_404(serve: Serve) -> None:
    async with serve(allowed_origins=frozenset({"*"})) as served:
        assert (await served.http.options(CHAT)).status_code == 405
        assert (await served.http.options(CHAT, headers={"origin": PAGE})).status_code == 405
        answer = await served.http.options("/tokenize", headers=preflight(PAGE))
        assert answer.status_code == 404


async def test_names_that_are_no_headers_are_not_repeated(serve: Serve) -> None:
    async with serve(allowed_origins=frozenset({"*"})) as served:
        asked = {**preflight(PAGE), "access-control-request-headers": "a;b<c>"}
        answer = await served.http.options(CHAT, headers=asked)
        assert answer.status_code == 204
        assert "access-control-allow-headers" not in answer.headers

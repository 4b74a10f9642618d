"""Events are read from a real server on loopback."""

from __future__ import annotations

import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline.workbench.audit.server.transport import HttpTransport, ServerError


async def test_only_a_newline_ends_the_line_of_an_event() -> None:
    """JSON allows U+0085, U+2028 and U+2029 within a string, and vLLM sends them as they are."""
    event = {"choices": [{"text": "a\u0085b\u2028c\u2029d"}]}

    async def stream(request: web.Request) -> web.Response:
        data = json.dumps(event, ensure_ascii=False)
        return web.Response(text=f"data: {data}\r\n\r\ndata: {data}\n\ndata: [DONE]\n\n")

    app = web.Application()
    app.router.add_post("/v1/completions", stream)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        transport = HttpTransport(session, server.make_url(""))
        assert await transport.post_stream("/v1/completions", {}) == [event, event]


@pytest.mark.parametrize("status", [200, 401])
async def test_an_error_that_repeats_the_key_does_not_show_it(status: int) -> None:
    """Errors become reasons of the report, which never has the key."""

    async def refuse(request: web.Request) -> web.Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        return web.json_response({"error": {"message": f"bad key {key}"}}, status=status)

    app = web.Application()
    app.router.add_post("/v1/completions", refuse)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        transport = HttpTransport(session, server.make_url(""), api_key="sk-1234")
        with pytest.raises(ServerError, match=r"bad key \*\*\*"):
            await transport.post("/v1/completions", {})


async def test_an_answer_that_is_nested_too_deep_is_an_error_of_the_server() -> None:
    async def nested(request: web.Request) -> web.Response:
        return web.Response(text="[" * 100_000)

    app = web.Application()
    app.router.add_get("/v1/models", nested)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        transport = HttpTransport(session, server.make_url(""))
        with pytest.raises(ServerError, match="not a JSON object"):
            await transport.get("/v1/models")

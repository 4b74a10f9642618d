"""Events are read from a real server on loopback."""

from __future__ import annotations

import json

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from paceline.audit.server.transport import HttpTransport


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

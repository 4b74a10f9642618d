"""Tokens in streams against the usage that the server counts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from paceline.operations.doctor.probing.streams import StreamCount, count_streams
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings


@contextlib.asynccontextmanager
async def _streaming(*events: object, status: int = 200) -> AsyncIterator[URL]:
    """A server whose streams have these events."""

    async def complete(request: web.Request) -> web.Response:
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        return web.Response(text=f"{text}data: [DONE]\n\n", status=status)

    application = web.Application()
    application.router.add_post("/v1/completions", complete)
    server = TestServer(application)
    await server.start_server()
    try:
        yield URL(str(server.make_url("/")))
    finally:
        await server.close()


async def _count(url: URL) -> set[tuple[int | None, int | None]]:
    async with aiohttp.ClientSession() as session:
        counts = await count_streams(session, url, None, "m")
    assert len(counts) == 4
    assert all(isinstance(one, StreamCount) for one in counts)
    return {(one.streamed, one.counted) for one in counts}


_TOKENS = {"choices": [{"index": 0, "token_ids": [7, 8]}]}
_USAGE = {"choices": [], "usage": {"completion_tokens": 4}}


async def test_a_proxy_that_sends_an_event_twice_is_seen() -> None:
    async with _streaming(_TOKENS, _TOKENS, _TOKENS, _USAGE) as url:
        assert await _count(url) == {(6, 4)}


async def test_streams_without_ids_or_usage_have_no_counts() -> None:
    async with _streaming({"choices": [{"text": "x"}]}, _USAGE) as url:
        assert await _count(url) == {(None, 4)}
    async with _streaming(_TOKENS) as url:
        assert await _count(url) == {(2, None)}


async def test_a_failed_stream_has_no_counts() -> None:
    async with _streaming(_TOKENS, _USAGE, status=500) as url:
        assert await _count(url) == {(None, None)}
    async with _streaming("no object", 7) as url:
        assert await _count(url) == {(None, None)}


async def test_the_streams_of_the_mock_server_agree_with_their_usage() -> None:
    async with MockVllm(MockVllmSettings(model="m", tpot_ms=1, eos_every_tokens=0)) as server:
        assert await _count(URL(server.url)) == {(32, 32)}

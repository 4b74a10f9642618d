"""Malformed and hostile requests get an error of the usual shape, and nothing else."""

from __future__ import annotations

import asyncio
import json

import pytest

from paceline.gateway.http.protocol import MAX_HEAD_BYTES
from unit.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def raw(served: Served, *parts: bytes) -> tuple[int, dict[str, object]]:
    """Send bytes, and read until the gateway closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        for part in parts:
            writer.write(part)
        async with asyncio.timeout(3):
            answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n"
        b"content-length: 6\r\n\r\nhello",
    ],
)
async def test_what_is_not_one_http_request_is_a_400(served: Served, request_bytes: bytes) -> None:
    status, answer = await raw(served, request_bytes)
    assert (status, answer["error"]["code"]) == (400, "invalid_http")  # type: ignore[index]
    assert served.engine.num_begun == 0


async def test_headers_without_end_are_a_431(served: Served) -> None:
    field = b"x: " + b"a" * (MAX_HEAD_BYTES - 100)
    status, answer = await raw(served, b"GET /health HTTP/1.1\r\n", field, b"a" * 200)
    assert (status, answer["error"]["code"]) == (431, "headers_too_large")  # type: ignore[index]


async def test_headers_that_are_too_slow_are_a_408(served: Served) -> None:
    status, answer = await raw(served, b"GET /health HTTP/1.1\r\n")
    assert (status, answer["error"]["code"]) == (408, "headers_timeout")  # type: ignore[index]


async def test_a_connection_may_be_idle_between_requests(served: Served) -> None:
    """The time limit for the headers (0.8 s here) starts with their first byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    for _ in range(2):
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(2):
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(1.0)
    writer.close()


async def test_a_body_announced_as_too_long_is_refused_without_reading_it(served: Served) -> None:
    status, answer = await raw(
        served,
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"expect: 100-continue\r\ncontent-length: 99999999999\r\n\r\n",
    )
    assert (status, answer["error"]["code"]) == (413, "body_too_large")  # type: ignore[index]

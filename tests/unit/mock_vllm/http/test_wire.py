"""Connections: pipelining, keep-alive, back-pressure, Unix sockets, and invalid HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.testing.mock_vllm import MockVllm, MockVllmSettings, encode_text, expected_answer

SETTINGS = MockVllmSettings(model="m", tpot_ms=0, prefill_tokens_per_s=1e9, eos_every_tokens=0)


def _request(path: str = "/health", body: dict[str, Any] | None = None, *headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "host: x", *headers]
    if body is not None:
        lines += ["content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


@asynccontextmanager
async def _connected(
    settings: MockVllmSettings = SETTINGS,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with MockVllm(settings) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        yield reader, writer
        writer.close()


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Even if later requests arrive while the first, which takes 0.2 s, is being answered."""
    body = {"model": "m", "prompt": "a" * 200, "max_tokens": 5, "temperature": 0}
    async with _connected(MockVllmSettings(model="m", prefill_tokens_per_s=1000)) as (
        reader,
        writer,
    ):
        writer.write(_request("/v1/completions", body) + _request("/version"))
        await asyncio.sleep(0.05)  # sleep: the answers keep their order if it is longer, too
        writer.write(_request("/none"))
        read = b""
        while read.count(b"HTTP/1.1 ") < 3:
            read += await asyncio.wait_for(reader.read(65536), 60)
        positions = [read.index(part) for part in (b"text_completion", b"0.32.0", b"404 Not Found")]
        assert positions == sorted(positions)


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with _connected() as (reader, writer):
        for byte in _request("/tokenize", {"prompt": "ab"}):
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        assert b"200 OK" in await asyncio.wait_for(reader.readline(), 60)


async def test_connection_close_closes_the_connection() -> None:
    async with _connected() as (reader, writer):
        writer.write(_request("/health", None, "connection: close"))
        assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 200 OK")


async def test_invalid_http_is_answered_with_400_and_closes_the_connection() -> None:
    async with _connected() as (reader, writer):
        writer.write(b"hello\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 400")


async def test_100_continue_is_sent_before_the_body_arrives() -> None:
    async with _connected() as (reader, writer):
        head, _, body = _request("/tokenize", {"prompt": "a"}, "expect: 100-continue").partition(
            b"\r\n\r\n"
        )
        writer.write(head + b"\r\n\r\n")
        assert await asyncio.wait_for(reader.readline(), 60) == b"HTTP/1.1 100 Continue\r\n"
        writer.write(body)
        await reader.readline()
        assert b"200 OK" in await asyncio.wait_for(reader.readline(), 60)


async def test_a_client_that_does_not_read_gets_the_tokens_of_that_time_as_one_event() -> None:
    """So the server buffers one event for it, not thousands."""
    body = {"model": "m", "prompt": "a", "temperature": 0, "stream": True}
    settings = MockVllmSettings(
        model="m", tpot_ms=0, eos_every_tokens=0, max_model_len=100_000, max_num_seqs=1
    )
    body |= {"return_token_ids": True, "max_tokens": 30_000}
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", server.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=2**10)
        writer.write(_request("/v1/completions", body))
        async with asyncio.timeout(120):
            metrics = b""
            while b'finished_reason="length",model_name="m"} 1.0' not in metrics:
                await asyncio.sleep(0.05)  # sleep: the pause between two looks decides nothing
                metrics = (await http.get("/metrics")).content
        read = bytearray()
        while not read.endswith(b"\r\n0\r\n\r\n"):
            read += await asyncio.wait_for(reader.read(2**20), 60)
        writer.close()
    ids: list[int] = []
    sizes = []
    for line in read.split(b"\n"):
        if line.startswith(b"data: {"):
            delta = json.loads(line[6:])["choices"][0]["token_ids"]
            sizes.append(len(delta))
            ids += delta
    assert tuple(ids) == expected_answer(encode_text("a"), 30_000, eos_every_tokens=0).ids
    assert max(sizes) > 1000


async def test_a_unix_socket_is_opened_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with MockVllm(SETTINGS, socket_path=path) as server:
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(base_url=server.url, transport=transport, timeout=60) as http:
            assert (await http.get("/health")).status_code == 200
            await http.post("/mock_vllm/faults", json=[{"kind": "reset", "route": "health"}])
            with pytest.raises(httpx.HTTPError):
                await http.get("/health")
    assert not path.exists()

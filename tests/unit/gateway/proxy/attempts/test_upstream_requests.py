"""What a replica receives, byte for byte, and what is made of its answer."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import pytest

from paceline.runtime.gateway.proxy.upstream import (
    Broken,
    TooLarge,
    UpstreamResponse,
    Upstreams,
    _reason,
)
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.settings import GatewaySettings
from unit.gateway.conftest import until

LIMIT_S = 60.0


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", b""]) + body


@dataclass
class Server:
    """Answers every request with the same bytes, and records what it receives."""

    answer: bytes
    requests: list[bytes] = field(default_factory=list)
    num_open: int = 0
    most_open: int = 0
    url: str = ""
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head + await reader.readexactly(2))
        await self.may_answer.wait()
        writer.write(self.answer)
        await reader.read()  # until the gateway closes the connection
        self.num_open -= 1
        writer.close()


@asynccontextmanager
async def serving(answer: bytes) -> AsyncIterator[tuple[Server, Upstreams, Replica]]:
    served = Server(answer)
    served.may_answer.set()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    replica = Replica("one", served.url, "model", "ready")
    async with server, asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        yield served, upstreams, replica


@asynccontextmanager
async def answered(with_bytes: bytes) -> AsyncIterator[UpstreamResponse]:
    async with serving(with_bytes) as (_, upstreams, replica):
        response = await upstreams.post(replica, "/", b"{}", "id")
        yield response
        response.close()


@pytest.mark.parametrize("key", [None, "secret"])
async def test_a_request_has_these_headers_and_no_others(key: str | None) -> None:
    async with serving(answer(b"{}")) as (served, upstreams, replica):
        slashed = replace(replica, address=replica.address + "/", key=key)
        response = await upstreams.post(slashed, "/v1/completions", b"{}", "id-1")
        response.close()
    head, body = served.requests[0].split(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, value in (line.split(b": ") for line in lines)}
    assert (first, body) == (b"POST /v1/completions HTTP/1.1", b"{}")
    expected = {
        b"host": served.url.removeprefix("http://").encode(),
        b"content-type": b"application/json",
        b"content-length": b"2",
        b"x-request-id": b"id-1",
        b"accept-encoding": b"identity",
        b"accept": b"*/*",
        b"connection": b"close",
    }
    assert headers == expected | ({} if key is None else {b"authorization": b"Bearer secret"})


async def test_every_request_has_a_connection_of_its_own() -> None:
    """More at a time than aiohttp opens by default, which is 100."""
    async with serving(answer(b"{}")) as (served, upstreams, replica):
        served.may_answer.clear()
        requests = [
            asyncio.ensure_future(upstreams.post(replica, "/", b"{}", "id")) for _ in range(101)
        ]
        await until(lambda: served.num_open == 101, LIMIT_S)
        served.may_answer.set()
        for response in await asyncio.gather(*requests):
            response.close()
    assert served.most_open == 101


async def test_a_closed_answer_closes_its_connection() -> None:
    async with serving(answer(b"{}")) as (served, upstreams, replica):
        response = await upstreams.post(replica, "/", b"{}", "id")
        assert await response.read_all(2) == b"{}"
        response.close()
        response.close()
        await until(lambda: served.num_open == 0, LIMIT_S)


async def test_a_redirection_is_an_answer_like_any_other() -> None:
    moved = answer(b"", b"location: http://127.0.0.1:1/", status=b"307 Temporary Redirect")
    async with answered(moved) as response:
        assert response.status == 307


@pytest.mark.parametrize(
    ("header", "is_encoded"),
    [
        (b"content-encoding: gzip", True),
        (b"content-encoding: br", True),
        (b"content-encoding: identity", False),
        (b"content-type: application/json", False),
    ],
)
async def test_a_compressed_body_is_known_as_such(header: bytes, is_encoded: bool) -> None:
    async with answered(answer(b"{}", header)) as response:
        assert (response.status, response.is_encoded) == (200, is_encoded)


async def test_a_body_is_not_decompressed() -> None:
    compressed = gzip.compress(b"{}")
    async with answered(answer(compressed, b"content-encoding: gzip")) as response:
        assert await response.read_all(1000) == compressed


async def test_memory_is_reserved_for_all_that_is_kept() -> None:
    reserved: list[int] = []
    async with answered(answer(b"hello world")) as response:
        assert await response.read_all(11, reserved.append) == b"hello world"
    assert sum(reserved) == 11
    async with answered(answer(b"hello world")) as response:
        with pytest.raises(TooLarge, match="the answer is longer than 10 bytes"):
            await response.read_all(10)


async def test_a_reservation_that_is_refused_ends_the_reading() -> None:
    def refuse(num_bytes: int) -> None:
        raise MemoryError

    async with answered(answer(b"hello world")) as response:
        with pytest.raises(MemoryError):
            await response.read_all(1000, refuse)


@pytest.mark.parametrize(
    ("max_bytes", "start"), [(0, b""), (1, b"h"), (11, b"hello world"), (12, b"hello world")]
)
async def test_the_start_of_a_body_is_as_long_as_asked(max_bytes: int, start: bytes) -> None:
    async with answered(answer(b"hello world")) as response:
        assert await response.read_error(max_bytes) == start


async def test_an_answer_that_is_not_http_is_broken_and_not_quoted() -> None:
    async with serving(b"secret\r\n\r\n") as (_, upstreams, replica):
        with pytest.raises(Broken) as broken:
            await upstreams.post(replica, "/", b"{}", "id")
    assert "secret" not in str(broken.value)


async def test_sessions_are_kept_by_address_and_closed_at_the_end() -> None:
    replica = Replica("one", "http://host:8000", "model", "ready")
    async with Upstreams(GatewaySettings()) as upstreams:
        session, base = upstreams._session(replica)
        assert base == "http://host:8000"
        assert upstreams._session(replace(replica, name="two"))[0] is session
        unix, base = upstreams._session(replace(replica, address="/run/r0.sock"))
        assert base == "http://engine"
        assert unix is not session
    assert (session.closed, unix.closed) == (True, True)


async def test_the_kernel_holds_64_kib_of_an_answer() -> None:
    """Linux doubles what is asked for."""
    half = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello"
    async with answered(half) as response:
        connection = response._response.connection
        opened = None if connection is None else connection.transport
        assert opened is not None
        buffer = opened.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert buffer == 2 * 32 * 1024


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("no route"), "OSError: no route"),
        (OSError(), "OSError"),
        (TimeoutError(), "TimeoutError"),
        (aiohttp.ClientPayloadError("secret"), "ClientPayloadError"),
        (aiohttp.ServerDisconnectedError("gone"), "ServerDisconnectedError: gone"),
    ],
)
def test_errors_that_may_quote_an_answer_are_named_only(error: Exception, reason: str) -> None:
    assert _reason(error) == reason

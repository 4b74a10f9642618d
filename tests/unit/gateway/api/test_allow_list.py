"""Only the listed paths and methods reach an engine, however a request is written.

The engine here is a socket that counts connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from unit.gateway.api.vllm_routes import FASTAPI, VLLM_0_32, routes_of, vllm_folder
from unit.gateway.conftest import Served, chat, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALLOWED = {
    "/v1/chat/completions": {"POST"},
    "/v1/completions": {"POST"},
    "/v1/embeddings": {"POST"},
    "/v1/responses": {"POST"},
    "/v1/models": {"GET", "HEAD"},
    "/health": {"GET", "HEAD"},
    "/ready": {"GET", "HEAD"},
}
"""What the gateway serves. Add a new path here manually."""
NUM_CONNECTIONS = 8

OURS = ["/admin/governor", "/admin/replicas", "/admin/variants", "/dashboard", "/", "/v1"]
PATHS = sorted({path.replace("{response_id}", "r1") for path in VLLM_0_32 + FASTAPI + OURS})
METHODS = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND",
    "get", "post", "BREW",
]  # fmt: skip


@dataclass
class Listener:
    """An engine that closes every connection."""

    num_connections: int = 0
    """Without those with which the gateway asks whether the engine has ended."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += await reader.readline() != b"GET /health HTTP/1.1\r\n"
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def listener(served: Served) -> AsyncIterator[Listener]:
    """Replaces the engine. Requests to it fail, so the breaker is reset first."""
    served.gateway.traffic.breakers.reset("r0")
    listening = Listener()
    path = served.engine.socket.with_name("listener.sock")
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(listening.serve, str(path))
    served.source.current = [replace(served.replicas[0], address=str(path))]
    yield listening
    server.close()


async def exchange(served: Served, request: bytes) -> bytes:
    """All bytes until the gateway closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        writer.write(request)
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


class Connection:
    """A connection that is kept open for several requests, one after another."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def status_of(self, method: str, target: str) -> int:
        """Status of the answer to a request without a body."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
        self._writer.write(head.encode("latin-1"))
        async with asyncio.timeout(60):
            start, *lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
            fields = dict(line.split(b": ", 1) for line in lines if line)
            if method != "HEAD":
                await self._reader.readexactly(int(fields[b"content-length"]))
        if fields.get(b"connection") == b"close":
            self.close()
        return int(start.split(b" ", 2)[1])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


async def status_of(served: Served, method: str, target: str) -> int:
    """Status of one request, on a connection of its own."""
    with contextlib.closing(Connection(served.gateway.port)) as connection:
        return await connection.status_of(method, target)


async def statuses(
    served: Served, requests: Sequence[tuple[str, str]]
) -> list[tuple[str, str, int]]:
    """Statuses of many requests, over a few connections that are kept open."""
    found: list[tuple[str, str, int]] = []
    remaining = iter(requests)

    async def send_in_turn() -> None:
        with contextlib.closing(Connection(served.gateway.port)) as connection:
            for method, target in remaining:
                found.append((method, target, await connection.status_of(method, target)))

    async with asyncio.TaskGroup() as senders:
        for _ in range(NUM_CONNECTIONS):
            senders.create_task(send_in_turn())
    assert sorted((method, target) for method, target, _ in found) == sorted(requests)
    return found


def spellings(path: str) -> list[str]:
    """Other ways to write a path; a careless server takes some of them for the path itself."""
    first = f"%{ord(path[1:2] or '/'):02x}"
    return [
        f"{path}/",
        f"/{path}",
        f"{path};a=b",
        f"{path}.",
        f"{path}/.",
        f"{path}%00",
        f"{path}%20",
        f"{path}%0d%0ax:y",
        f"/.{path}",
        f"/x/..{path}",
        f"/v1/models/..{path}",
        f"/v1/models/%2e%2e{path}",
        f"/v1/models%2f..{path}",
        f"/health;{path}",
        f"/%2e{path}",
        f"/{first}{path[2:]}" if path != "/" else "/%2f",
        path.replace("/", "%2f"),
        path.replace("/", "%252f"),
        path.replace("/", "\\"),
        path.replace("/", "//"),
        path.upper() if path.upper() != path else f"{path}X",
        f"http://engine{path}x",
        f"//engine{path}",
        f"*{path}",
    ]


async def test_the_listed_paths_of_vllm_match_its_files() -> None:
    assert sorted(set(routes_of(vllm_folder()))) == sorted(VLLM_0_32)


async def test_a_good_request_is_seen_by_this_engine(served: Served, listener: Listener) -> None:
    """Without this, the tests below would prove nothing."""
    await served.http.post("/v1/chat/completions", json=chat())
    assert listener.num_connections == 1


async def test_every_other_path_and_method_is_refused(served: Served, listener: Listener) -> None:
    requests = [
        (method, path)
        for path in PATHS
        for method in METHODS
        if method not in ALLOWED.get(path, ())
    ]
    assert len(requests) > 900
    for method, path, status in await statuses(served, requests):
        assert status in (400, 404, 405), (method, path, status)
        if path not in ALLOWED and method == "POST":
            assert status == 404, (method, path, status)
    assert listener.num_connections == 0


async def test_no_spelling_bypasses_the_list(served: Served, listener: Listener) -> None:
    requests = [
        (method, spelling)
        for path in PATHS
        for spelling in spellings(path)
        for method in ("GET", "POST")
        if spelling not in ALLOWED
    ]
    assert len(requests) > 3000
    for method, spelling, status in await statuses(served, requests):
        assert status in (400, 404), (method, spelling, status)
    assert listener.num_connections == 0


@pytest.mark.parametrize(
    "target", ["*", "x", "x:443", "//", "/?", "/#", "?", "http://", "/\t", "/ "]
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "CONNECT", "POST"])
async def test_odd_targets_are_refused(
    served: Served, listener: Listener, method: str, target: str
) -> None:
    assert await status_of(served, method, target) in (400, 404, 405)
    assert listener.num_connections == 0


async def test_the_whole_url_may_be_given_and_names_no_other_server(
    served: Served, listener: Listener
) -> None:
    """By RFC 9112 a server uses the path of the URL; it is not a proxy for other hosts."""
    assert await status_of(served, "GET", "http://elsewhere.example/health") == 200
    assert await status_of(served, "GET", "http://elsewhere.example/metrics") == 404
    assert listener.num_connections == 0


async def test_an_upgrade_is_ignored(served: Served, listener: Listener) -> None:
    for protocol in ("websocket", "h2c"):
        for path in ("/v1/realtime", "/v1/models"):
            answer = await exchange(
                served,
                f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close, upgrade\r\n"
                f"upgrade: {protocol}\r\nsec-websocket-version: 13\r\n"
                "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "http2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n".encode(),
            )
            assert int(answer.split()[1]) in (200, 404)
    assert listener.num_connections == 0


BODY = json.dumps(chat()).encode()
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
TE = b"transfer-encoding: chunked\r\n"
JSON = b"content-type: application/json\r\n"
SMUGGLED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: y\r\n" + JSON + LENGTH + b"\r\n" + BODY


def post(fields: bytes, body: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    start = b"POST /v1/chat/completions " + version + b"\r\nhost: localhost\r\n" + JSON
    return start + fields + b"\r\n" + body


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(LENGTH + TE, CHUNKED),
        post(TE + LENGTH, CHUNKED),
        post(TE + TE, CHUNKED),
        post(b"transfer-encoding: chunked, chunked\r\n", CHUNKED),
        post(b"transfer-encoding: chunked, identity\r\n", CHUNKED),
        post(b"transfer-encoding: identity\r\n", CHUNKED),
        post(b"transfer-encoding: identity\r\n" + LENGTH, BODY),
        post(b"transfer-encoding: gzip, chunked\r\n", CHUNKED),
        post(b"transfer-encoding: xchunked\r\n", CHUNKED),
        post(b"transfer-encoding: \x0bchunked\r\n", CHUNKED),
        post(b"transfer-encoding : chunked\r\n", CHUNKED),
        post(b"transfer-encoding\x00: chunked\r\n", CHUNKED),
        post(b"x: y\r\n transfer-encoding: chunked\r\n", CHUNKED),
        post(b"transfer-encoding:\r\n chunked\r\n", CHUNKED),
        post(b"transfer-encoding: chunked\r\n ,identity\r\n", CHUNKED),
        post(b"x: y\rtransfer-encoding: chunked\r\n", CHUNKED),
        post(b"x: y\ntransfer-encoding: chunked\r\n" + LENGTH, CHUNKED),
        post(LENGTH + LENGTH, BODY),
        post(LENGTH + b"content-length: 0\r\n", BODY),
        post(b"content-length: 5, 5\r\n", BODY),
        post(b"content-length: +5\r\n", BODY),
        post(b"content-length: 0x5\r\n", BODY),
        post(b"content-length: 5;\r\n", BODY),
        post(b"content-length: 5 5\r\n", BODY),
        post(b"content-length: \r\n", BODY),
        post(b"content-length: 99999999999999999999999\r\n", BODY),
        post(b"content-length : %d\r\n" % len(BODY), BODY),
        post(b" content-length: %d\r\n" % len(BODY), BODY),
        post(b": empty\r\n" + LENGTH, BODY),
        post(b"no colon\r\n" + LENGTH, BODY),
        post(b"x: a\x00b\r\n" + LENGTH, BODY),
        post(TE, b"0x5\r\nhello\r\n0\r\n\r\n"),
        post(TE, b"-5\r\nhello\r\n0\r\n\r\n"),
        post(TE, b"5 5\r\nhello\r\n0\r\n\r\n"),
        post(TE, b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        post(TE, b"5\r\nhelloX\r\n0\r\n\r\n"),
        post(TE, b"5;\n\r\nhello\r\n0\r\n\r\n"),
        post(TE, b"5\nhello\n0\n\n"),
        post(TE, CHUNKED[:-2] + b"content-length: 5\r\n\r\n"),
        post(LENGTH, BODY, b"HTTP/0.9"),
        post(LENGTH, BODY, b"HTTP/2.0"),
        post(LENGTH, BODY, b"HTTP/9.9"),
        post(LENGTH, BODY, b"http/1.1"),
        post(LENGTH, BODY, b"HTTP/1.1 x"),
        post(LENGTH, BODY, b"XTTP/1.1"),
        post(LENGTH, BODY).replace(b"\r\n", b"\n"),
        post(LENGTH, BODY).replace(b"\r\n", b"\r"),
        post(LENGTH, BODY).replace(b" /v1", b"\t/v1"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_a_request_that_servers_may_split_differently_ends_the_connection(
    served: Served, listener: Listener, request_bytes: bytes
) -> None:
    """One 4xx and nothing else, although a valid request follows on the same connection."""
    answer = await exchange(served, request_bytes + SMUGGLED)
    assert 400 <= int(answer.split(b" ", 2)[1]) < 500, answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert listener.num_connections == 0


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(LENGTH + b"connection: close\r\n", BODY),
        post(TE + b"connection: close\r\n", CHUNKED),
        post(b"TRANSFER-ENCODING: CHUNKED\r\nconnection: close\r\n", CHUNKED),
        post(TE + b"connection: close\r\n", CHUNKED.replace(b"\r\n", b";ext=1\r\n", 1)),
        post(LENGTH + b"connection: close\r\n", BODY).replace(b" /v1", b"  /v1"),
        post(LENGTH, BODY, b"HTTP/1.0"),
    ],
)
async def test_one_request_in_another_form_is_one_request(
    served: Served, listener: Listener, request_bytes: bytes
) -> None:
    """The engine gets one connection and does not answer, so the client gets a 503."""
    answer = await exchange(served, request_bytes)
    assert int(answer.split(b" ", 2)[1]) == 503
    await until(lambda: served.num_in_flight == 0)
    assert listener.num_connections == 1

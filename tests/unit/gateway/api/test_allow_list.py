"""Does nothing but what is listed get through to an engine, however it is written?

The engine here is a socket that counts who connects.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from unit.gateway.api.vllm_routes import FASTAPI, VLLM_0_32, find_vllm, routes_of
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
"""What the gateway serves, or will. A path that is added belongs here, by hand."""

OURS = ["/admin/governor", "/admin/replicas", "/admin/variants", "/dashboard", "/", "/v1"]
PATHS = sorted({path.replace("{response_id}", "r1") for path in VLLM_0_32 + FASTAPI + OURS})
METHODS = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND",
    "get", "post", "BREW",
]  # fmt: skip


@dataclass
class Listener:
    """An engine that answers nobody."""

    num_connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def listener(served: Served) -> AsyncIterator[Listener]:
    """In the engine's place; it fails, so the breaker forgets what it knew."""
    served.gateway.ledger.breakers.reset("r0")
    listening = Listener()
    path = served.engine.socket.with_name("listener.sock")
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(listening.serve, str(path))
    served.source.current = [replace(served.replicas[0], address=str(path))]
    yield listening
    server.close()


async def exchange(served: Served, request: bytes) -> bytes:
    """All that comes back until the gateway closes the connection, or says no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        writer.write(request)
        async with asyncio.timeout(5):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def status_of(served: Served, method: str, target: str) -> int:
    head = (
        f"{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )
    answer = await exchange(served, head.encode("latin-1"))
    return int(answer.split(b" ", 2)[1])


async def statuses(served: Served, asked: Sequence[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """Some at a time."""
    at_once = asyncio.Semaphore(16)

    async def ask(method: str, target: str) -> tuple[str, str, int]:
        async with at_once:
            return method, target, await status_of(served, method, target)

    return await asyncio.gather(*(ask(method, target) for method, target in asked))


def spellings(path: str) -> list[str]:
    """Other ways to write a path, some of which a careless server takes for the same."""
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


async def test_the_list_of_vllms_paths_is_that_of_its_files() -> None:
    vllm = find_vllm()
    if vllm is None:
        pytest.skip("vLLM is not installed here; its paths are tested from the list")
    assert sorted(set(routes_of(vllm))) == sorted(VLLM_0_32)


async def test_a_good_request_is_seen_by_this_engine(served: Served, listener: Listener) -> None:
    """Else the tests below would prove nothing."""
    await served.http.post("/v1/chat/completions", json=chat())
    assert listener.num_connections == 1


async def test_every_path_and_method_but_the_listed_is_refused(
    served: Served, listener: Listener
) -> None:
    asked = [
        (method, path)
        for path in PATHS
        for method in METHODS
        if method not in ALLOWED.get(path, ())
    ]
    assert len(asked) > 900
    for method, path, status in await statuses(served, asked):
        assert status in (400, 404, 405), (method, path, status)
        if path not in ALLOWED and method == "POST":
            assert status == 404, (method, path, status)
    assert listener.num_connections == 0


async def test_no_spelling_leads_round_the_list(served: Served, listener: Listener) -> None:
    asked = [
        (method, spelling)
        for path in PATHS
        for spelling in spellings(path)
        for method in ("GET", "POST")
        if spelling not in ALLOWED
    ]
    assert len(asked) > 3000
    for method, spelling, status in await statuses(served, asked):
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
    """As RFC 9112 has it: a server takes the path of it, and is no proxy for the rest."""
    assert await status_of(served, "GET", "http://elsewhere.example/health") == 200
    assert await status_of(served, "GET", "http://elsewhere.example/metrics") == 404
    assert listener.num_connections == 0


async def test_an_upgrade_is_not_taken(served: Served, listener: Listener) -> None:
    for protocol in ("websocket", "h2c"):
        for path in ("/v1/realtime", "/v1/models"):
            answer = await exchange(
                served,
                f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close, upgrade\r\n"
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
    start = b"POST /v1/chat/completions " + version + b"\r\nhost: x\r\n" + JSON
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
async def test_a_request_that_servers_may_cut_differently_ends_the_connection(
    served: Served, listener: Listener, request_bytes: bytes
) -> None:
    """One 4xx and no more, though a good request follows on the same connection."""
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
    """The engine is asked once; its answer here is none, so ours is a 503."""
    answer = await exchange(served, request_bytes)
    assert int(answer.split(b" ", 2)[1]) == 503
    await until(lambda: served.num_in_flight == 0)
    assert listener.num_connections == 1

"""An answer to HTTP/1.0 has no chunks: its length, or the end of the connection, ends it."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from unit.gateway.conftest import Served, chat, until
from unit.gateway.http.in_memory import answer_to

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEEP_ALIVE = b"connection: keep-alive\r\n"


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    """An answer of several parts, one of them empty; nothing of the body is read."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    for part in (b"one\n", b"", b"two\n", b"5\r\nthree"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def whole(scope: Scope, receive: Receive, send: Send) -> None:
    await send_body(send, 200, b"{}")


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send_body(send, 200, b"{}")


async def fail(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError


@pytest.mark.parametrize("more", [b"", KEEP_ALIVE, b"connection: upgrade\r\nupgrade: h2c\r\n"])
async def test_the_end_of_the_connection_ends_a_stream(more: bytes) -> None:
    answer, is_closed = await answer_to(stream, [b"GET / HTTP/1.0\r\n" + more + b"\r\n"])
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 OK\r\na: b\r\nconnection: close"
    assert body == b"one\ntwo\n5\r\nthree"
    assert is_closed


@pytest.mark.parametrize("app", [stream, whole])
async def test_an_answer_to_a_head_request_has_no_body(app: object) -> None:
    answer, is_closed = await answer_to(app, [b"HEAD / HTTP/1.0\r\n\r\n"])  # type: ignore[arg-type]
    assert answer.endswith(b"\r\n\r\n")
    assert b"transfer-encoding" not in answer
    assert is_closed


@pytest.mark.parametrize("app", [whole, fail])
@pytest.mark.parametrize("more", [b"", KEEP_ALIVE])
async def test_a_whole_answer_and_an_error_have_a_length(app: object, more: bytes) -> None:
    answer, is_closed = await answer_to(
        app,  # type: ignore[arg-type]
        [b"GET / HTTP/1.0\r\n" + more + b"\r\n"],
    )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert b"connection: close" in head
    assert b"transfer-encoding" not in head
    assert is_closed


async def test_no_interim_answer_is_sent() -> None:
    """HTTP/1.0 has none (RFC 9110, 15.2)."""
    answer, _ = await answer_to(
        read_all, [b"PUT / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", b"ab"]
    )
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_chunks_of_a_client_are_refused() -> None:
    """A proxy that takes the message for HTTP/1.0 sees another end of it (RFC 9112, 6.1)."""
    answer, is_closed = await answer_to(
        read_all, [b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"]
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"HTTP/1.0 has no Transfer-Encoding" in answer
    assert is_closed


@pytest.mark.parametrize("more", [b"", KEEP_ALIVE])
async def test_a_stream_of_the_data_port(served: Served, more: bytes) -> None:
    served.engine.tokens = ["a", "b", "c"]
    head, body = await _answer(served.gateway.port, "/v1/chat/completions", chat(stream=True), more)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head
    assert b"content-length" not in head
    assert body.startswith(b"data: {")
    assert body.endswith(b"data: [DONE]\n\n")


async def test_a_stream_of_the_data_port_ends_when_the_client_leaves(served: Served) -> None:
    served.engine.mode = "hang"
    body = json.dumps(chat(stream=True)).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(_post("/v1/chat/completions", body))
    await until(lambda: served.engine.num_begun == 1)
    writer.close()
    await until(lambda: served.engine.num_aborted == 1)


async def test_whole_answers_and_errors_of_the_data_port(served: Served) -> None:
    for asked, status in ((chat(), b"200"), (chat(model="other"), b"404"), ({}, b"400")):
        head, body = await _answer(served.gateway.port, "/v1/chat/completions", asked)
        assert head.split()[1] == status
        assert b"content-length: %d" % len(body) in head
        json.loads(body)


async def test_a_stream_of_the_admin_port(served: Served) -> None:
    """It never ends by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.admin_port)
    writer.write(b"GET /dashboard/events HTTP/1.0\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        first = await reader.readuntil(b"\n\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head.lower()
    assert b"data: " in first
    assert first.strip().split(b"\n")[0].startswith((b"data: ", b"event: ", b"retry: ", b"id: "))
    writer.close()


async def test_http_1_1_keeps_its_chunks_and_its_connection(served: Served) -> None:
    async with httpx.AsyncClient(base_url=served.gateway.url) as client:
        answer = await client.post("/v1/chat/completions", json=chat(stream=True))
    assert answer.headers["transfer-encoding"] == "chunked"
    assert "connection" not in answer.headers


async def _answer(port: int, path: str, asked: object, more: bytes = b"") -> tuple[bytes, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_post(path, json.dumps(asked).encode(), more))
    async with asyncio.timeout(60):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head, body


def _post(path: str, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\n%b"
    return head % (path.encode(), more) + b"content-length: %d\r\n\r\n" % len(body) + body

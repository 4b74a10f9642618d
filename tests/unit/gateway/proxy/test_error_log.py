"""The log names each failed request and the kind of error, and quotes no prompt or answer."""

from __future__ import annotations

import asyncio
import doctest
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from paceline.runtime.gateway.proxy import error_log
from paceline.runtime.gateway.proxy.error_log import describe_error
from unit.gateway.conftest import Serve, Served, chat

SECRET = "I am Ann, my PIN is 4711"
ID = "request-under-test"
CHAT = "/v1/chat/completions"
QUOTING = {"error": {"message": f"cannot encode {SECRET!r}", "type": "InternalServerError"}}


def refuse(status: int, error: object) -> Callable[[Served], None]:
    def set_up(served: Served) -> None:
        served.engine.mode = "refuse"
        served.engine.refusal = (status, error)  # type: ignore[assignment]

    return set_up


def fail_in_stream(served: Served) -> None:
    event = b"data: " + json.dumps(QUOTING).encode() + b"\n\n"
    served.engine.mode, served.engine.raw = "raw", b'data: {"a":1}\n\n' + event


def set_mode(mode: str) -> Callable[[Served], None]:
    def set_up(served: Served) -> None:
        served.engine.mode = mode

    return set_up


@pytest.mark.parametrize(
    "set_up",
    [
        refuse(500, QUOTING),
        refuse(500, {"error": {"message": "m", "type": SECRET}}),
        refuse(500, {"error": SECRET, "error_type": SECRET}),
        refuse(503, [SECRET]),
        fail_in_stream,
        set_mode("die"),
        set_mode("cut"),
        set_mode("dead"),
    ],
)
async def test_faults_of_engines_are_logged_by_id_and_kind(
    serve: Serve, set_up: Callable[[Served], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve() as served:
        served.engine.tokens = ["My ", SECRET, "!"]
        set_up(served)
        message = {"role": "user", "content": SECRET}
        await served.http.post(
            CHAT, json=chat(stream=True, messages=[message]), headers={"x-request-id": ID}
        )
    assert_logged(caplog)


@asynccontextmanager
async def malformed_replica(served: Served, answer: bytes) -> AsyncIterator[None]:
    """A replica whose answer is not HTTP, or is HTTP only at its beginning."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    path = served.engine.socket.with_name("malformed.sock")
    server = await asyncio.start_unix_server(serve_one, str(path))
    served.source.current = [replace(served.replicas[0], address=str(path))]
    try:
        yield
    finally:
        server.close()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        SECRET.encode() + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + SECRET.encode() + b"\r\n\r\n",
        HEAD + b"5\r\nhello\r\n" + SECRET.encode() + b"\r\n",
        HEAD + SECRET.encode() + b"\r\n",
    ],
)
async def test_bytes_that_are_not_http_are_not_quoted(
    serve: Serve, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """aiohttp's exceptions quote the bytes that it cannot parse."""
    caplog.set_level(logging.DEBUG)
    async with serve() as served, malformed_replica(served, answer):
        body = chat(stream=True)
        response = await served.http.post(CHAT, json=body, headers={"x-request-id": ID})
    assert SECRET not in response.text
    assert_logged(caplog)


def assert_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The gateway logged at least one line; each has the request's id, and none the text."""
    form = logging.Formatter().format
    ours = [form(entry) for entry in caplog.records if entry.name.startswith("paceline")]
    assert ours
    assert all(ID in line for line in ours), ours
    # httpx and httpcore log the client's side
    servers = [form(e) for e in caplog.records if not e.name.startswith(("httpx", "httpcore"))]
    for word in ("Ann", "4711"):
        assert not [line for line in servers if word in line]


async def test_the_text_is_logged_if_the_operator_allows_it(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(log_prompts=True) as served:
        refuse(500, QUOTING)(served)
        await served.http.post(CHAT, json=chat())
        fail_in_stream(served)
        await served.http.post(CHAT, json=chat(stream=True))
    assert caplog.text.count(SECRET) == 2


async def test_a_fault_of_the_gateway_is_logged_by_id(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as served:
        served.source.current = [None]  # type: ignore[list-item]
        answer = await served.http.post(CHAT, json=chat(), headers={"x-request-id": ID})
    assert answer.status_code == 500
    assert f"request {ID}: fault in the gateway" in caplog.text
    assert "hello" not in caplog.text


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"error": {"type": "InternalServerError", "code": 500}}, "InternalServerError"),  # vLLM
        ({"object": "error", "type": "InternalServerError"}, "InternalServerError"),  # SGLang
        ({"error": "Request failed", "error_type": "generation"}, "generation"),  # TGI
        ({"error": {"type": "server_error", "code": 500}}, "server_error"),  # llama.cpp
    ],
)
def test_the_kind_of_error_is_found_in_every_servers_shape(
    error: dict[str, object], kind: str
) -> None:
    assert describe_error(json.dumps(error).encode(), False).startswith(f"{kind}, ")


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"5", b'{"error": {"type": 3}}'])
def test_any_error_is_described(body: bytes) -> None:
    assert describe_error(body, False).endswith(
        f"{len(body)} bytes (server.log_prompts would show them)"
    )


def test_the_example_runs() -> None:
    assert doctest.testmod(error_log).failed == 0


def test_the_text_of_an_error_is_cut_at_500_bytes() -> None:
    assert describe_error(b"x" * 500, True) == repr(b"x" * 500)
    assert describe_error(b"x" * 501, True) == repr(b"x" * 500)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{broken", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no type"),
        (b'{"error":{"type":"two words"}}', "no type"),
        (b'{"error":{"type":3}}', "no type"),
        (b'{"error":{"type":"A","error_type":"B"}}', "A"),
        (b'{"error":{"message":"x"},"type":"A"}', "no type"),
        (b'{"error":null,"error_type":"B"}', "B"),
        (b'{"error":{"type":"' + b"A" * 60 + b'"}}', "A" * 60),
        (b'{"error":{"type":"' + b"A" * 61 + b'"}}', "no type"),
    ],
)
def test_the_kind_is_a_name_or_nothing(body: bytes, kind: str) -> None:
    assert describe_error(body, False).split(", ")[0] == kind

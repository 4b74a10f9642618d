"""Java's own HTTP client (java.net.http) in its default settings, which offers HTTP/2 by `Upgrade`.

The requests travel over a relay that keeps what the client has sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio
from jdk_program import find_jdk
from polling import until

from clients.chats import chat, text_of
from clients.conftest import Served
from clients.relay import Relay, relay_to
from clients.scripted_engine import TEXT

_SOURCE = Path(__file__).parent / "java" / "Ask.java"
_WITHIN_S = 300.0
"""Ends a client that hangs; decides nothing."""
CHAT = "/v1/chat/completions"


@dataclass(frozen=True)
class Ask:
    """A request, and how the client sends and reads it; `Ask.java` lists the ways."""

    method: str
    path: str
    body: bytes = b""
    send: str = "bytes"
    read: str = "string"
    key: str | None = None
    """That of the gateway, unless another one is given."""


@dataclass(frozen=True)
class Answer:
    status: int
    protocol: str
    body: str


@dataclass
class Java:
    """The compiled client, and a gateway with a relay before each port."""

    folder: Path
    served: Served
    data: Relay
    admin: Relay

    async def ask(self, *asks: Ask, together: bool = False) -> list[Answer]:
        """Send the requests with one client, one after the other or all at once."""
        lines = [
            "\t".join(
                (
                    ask.method,
                    (self.admin if ask.path.startswith("/admin") else self.data).url + ask.path,
                    *(ask.send if ask.body else "none", ask.read),
                    *(ask.key or self.served.key, base64.b64encode(ask.body).decode()),
                )
            )
            for ask in asks
        ]
        process = await asyncio.create_subprocess_exec(
            *(find_jdk("java"), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(self.folder)),
            *("Ask", *(["--together"] if together else [])),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_WITHIN_S):
                output, errors = await process.communicate("\n".join(lines).encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, errors.decode()
        return [_answer_of(line) for line in output.decode().splitlines()]


def _answer_of(line: str) -> Answer:
    status, protocol, body = line.split("\t")
    assert status != "error", protocol
    return Answer(int(status), protocol, base64.b64decode(body).decode())


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    command = [find_jdk("javac"), "-d", str(folder), str(_SOURCE)]
    subprocess.run(command, check=True, timeout=_WITHIN_S)
    return folder


@pytest_asyncio.fixture
async def java(compiled: Path, served: Served) -> AsyncIterator[Java]:
    async with relay_to(served.gateway.url) as data, relay_to(served.gateway.admin_url) as admin:
        yield Java(compiled, served, data, admin)


LARGE = chat("word " * 250_000)
WHOLE = Ask("POST", CHAT, chat())
STREAM = Ask("POST", CHAT, chat(stream=True), read="lines")


async def test_chats_and_streams_on_one_connection_that_offers_http_2(java: Java) -> None:
    """Bodies of known length and in chunks, after `100 Continue`, and of more than a megabyte."""
    asks = [
        WHOLE,
        STREAM,
        replace(STREAM, read="string"),
        replace(WHOLE, send="chunked"),
        replace(STREAM, send="chunked"),
        replace(WHOLE, send="expect"),
        replace(WHOLE, body=LARGE),
        replace(WHOLE, body=LARGE, send="chunked"),
        replace(STREAM, send="expect"),
        WHOLE,
    ]
    answers = await java.ask(*asks)
    assert [(one.status, one.protocol) for one in answers] == [(200, "HTTP_1_1")] * len(asks)
    assert [text_of(one.body) for one in answers] == [TEXT] * len(asks)
    (sent,) = java.data.sent
    assert b"\r\nUpgrade: h2c\r\n" in sent
    assert len(java.served.engine.bodies) == len(asks)


async def test_a_body_sent_with_an_offer_of_http_2_is_never_taken_for_a_request(
    java: Java,
) -> None:
    """On any route of both ports. The next request of the client gets its own answer.

    JDK 17 waits forever after `Expect: 100-continue` if the answer is final at once, so that is
    sent only where the gateway reads the body.
    """
    routes = [
        ("POST", CHAT, 400),  # the body is no JSON
        ("POST", "/v1/completions", 400),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/absent", 404),
        ("GET", "/health", 200),
        ("POST", "/ready", 405),
        ("PATCH", "/admin/replicas", 400),
        ("PATCH", "/admin/governor", 400),
    ]
    inner = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" * 2
    asks, expected = [], []
    for method, path, status in routes:
        is_admin = path.startswith("/admin")
        for send in ("bytes", "chunked", *(["expect"] if path.endswith("completions") else [])):
            asks.append(Ask(method, path, inner, send))
            asks.append(Ask("GET", "/admin/replicas" if is_admin else "/v1/models"))
            expected += [(method, path, send, status), "replicas" if is_admin else "data"]
    answers = await java.ask(*asks)
    found: list[object] = []
    for ask, answer in zip(asks, answers, strict=True):
        if ask.body:
            found.append((ask.method, ask.path, ask.send, answer.status))
        else:
            found += [key for key in json.loads(answer.body) if key in ("replicas", "data")]
    assert found == expected
    assert java.data.num_answers + java.admin.num_answers == len(asks)
    assert java.served.engine.bodies == []


async def test_many_requests_at_once_each_get_their_own_answer(java: Java) -> None:
    """The client opens a connection for each and offers HTTP/2 on all of them."""
    asks = [ask for _ in range(8) for ask in (WHOLE, STREAM)]
    answers = await java.ask(*asks, together=True)
    assert [(one.status, text_of(one.body)) for one in answers] == [(200, TEXT)] * len(asks)


async def test_errors_have_their_status_and_code(java: Java) -> None:
    asks: Sequence[Ask] = (
        replace(WHOLE, key="wrong"),
        replace(STREAM, key="wrong"),
        replace(WHOLE, body=chat("error 400")),
        replace(STREAM, body=chat("error 400", stream=True)),
        replace(WHOLE, body=chat("error 503")),
    )
    answers = await java.ask(*asks)
    codes = [json.loads(one.body)["error"]["code"] for one in answers]
    assert [one.status for one in answers] == [401, 401, 400, 400, 503]
    assert codes == [
        *["invalid_api_key"] * 2, *["context_length_exceeded"] * 2, "engine_unavailable"
    ]  # fmt: skip


async def test_a_stream_that_the_client_closes_ends_at_the_engine(java: Java) -> None:
    """The client can send the next request."""
    endless = replace(STREAM, body=chat("endless", stream=True), read="first")
    left, after = await java.ask(endless, WHOLE)
    assert "Hello" in left.body
    assert text_of(after.body) == TEXT
    await until(lambda: java.served.engine.num_aborted == 1)
    await until(lambda: java.served.gateway.traffic.num_in_flight("r0") == 0)

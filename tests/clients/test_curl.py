"""curl in every version of HTTP that it offers, with small and large bodies, streamed and not."""

from __future__ import annotations

import asyncio
import codecs
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from missing_program import skip_or_fail

from clients.chats import chat, text_of
from clients.conftest import Served
from clients.relay import Relay, relay_to
from clients.scripted_engine import TEXT

_PATH = "/usr/bin:/bin"
_MAX_S = 120
"""Ends a client that hangs; decides nothing."""
_TIMED_OUT = 28
"""curl's exit code."""
LARGE = "word " * 250_000
"""More than 1 MB, which curl sends with `Expect: 100-continue`."""


class Curl:
    """Requests to a gateway, over a relay that keeps what was sent."""

    def __init__(self, served: Served, relay: Relay, folder: Path) -> None:
        self.served = served
        self.relay = relay
        self._folder = folder

    async def run(self, *arguments: str, path: str = "/v1/chat/completions") -> tuple[int, str]:
        """The exit code, and what it prints: the head of the answer and the body."""
        process = await asyncio.create_subprocess_exec(
            *("curl", "--silent", "--include", "--no-buffer", "--max-time", str(_MAX_S)),
            *("--header", f"Authorization: Bearer {self.served.key}"),
            *("--header", "Content-Type: application/json"),
            *(*arguments, self.relay.url + path),
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": _PATH},  # without proxies
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    def body_file(self, body: bytes) -> str:
        """The argument of --data-binary for this body."""
        file = self._folder / "body.json"
        file.write_bytes(body)
        return f"@{file}"


@pytest_asyncio.fixture
async def curl(served: Served, tmp_path: Path) -> AsyncIterator[Curl]:
    if shutil.which("curl", path=_PATH) is None:
        skip_or_fail("curl is missing; Debian and Ubuntu: apt-get install curl")
    async with relay_to(served.gateway.url) as relay:
        yield Curl(served, relay, tmp_path)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["Say hello.", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("version", ["--http2", "--http1.1", "--http1.0"])
async def test_a_chat_is_answered_in_each_version_of_http(
    curl: Curl, version: str, text: str, stream: bool
) -> None:
    """`--http2` offers HTTP/2 by `Upgrade`, and is answered over HTTP/1.1."""
    body = curl.body_file(chat(text, stream=stream))
    code, output = await curl.run(version, "--data-binary", body)
    head = output.replace("\r\n", "\n").partition("\n\n")[0]
    assert code == 0, output
    assert "HTTP/1.1 200 " in output, output
    answer = output.replace("\r\n", "\n").partition(" 200 ")[2].partition("\n\n")[2]
    assert text_of(answer) == TEXT
    (sent,) = curl.relay.sent
    assert (b"\r\nUpgrade: h2c\r\n" in sent) == (version == "--http2")
    assert (b"\r\nExpect: 100-continue\r\n" in sent) == (text is LARGE and version != "--http1.0")
    if version == "--http1.0":
        assert "transfer-encoding" not in head.lower()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/health"])
async def test_http_2_without_an_offer_ends_with_an_error_and_no_hang(
    curl: Curl, path: str
) -> None:
    """The connection begins in HTTP/2, which the gateway does not speak."""
    body = curl.body_file(chat())
    send = ["--data-binary", body] if path.endswith("completions") else []
    code, _ = await curl.run("--http2-prior-knowledge", *send, path=path)
    assert code not in (0, _TIMED_OUT)
    assert curl.served.engine.bodies == []
    assert (await curl.run(path="/health"))[0] == 0


async def test_requests_on_one_connection_that_offers_http_2(curl: Curl) -> None:
    """The second request, and a third one without a body, follow on the connection of the first."""
    body = curl.body_file(chat())
    url = f"{curl.relay.url}/v1/chat/completions"
    post = ["--http2", "--data-binary", body]
    header = ["--header", f"Authorization: Bearer {curl.served.key}"]
    header += ["--header", "Content-Type: application/json"]
    code, output = await curl.run(
        *post, url, "--next", "--silent", "--include", *header, *post, url,
        *("--next", "--silent", "--include", *header, "--http2"), path="/v1/models",
    )  # fmt: skip
    assert (code, output.count(" 200 OK")) == (0, 3), output
    assert (len(curl.relay.sent), len(curl.served.engine.bodies)) == (1, 2)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_from_a_file_with_a_byte_order_mark_is_read(curl: Curl, stream: bool) -> None:
    """Editors on Windows write one; RFC 8259, 8.1 allows to ignore it."""
    body = curl.body_file(codecs.BOM_UTF8 + chat(stream=stream))
    code, output = await curl.run("--http2", "--data-binary", body)
    assert code == 0
    answer = output.replace("\r\n", "\n").partition(" 200 ")[2].partition("\n\n")[2]
    assert text_of(answer) == TEXT, output

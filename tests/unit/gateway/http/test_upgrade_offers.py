"""A request that offers another protocol is answered as one that does not (RFC 9110, 7.8).

A parser that stopped at the offer would lose the body, and take its bytes for the next request.
"""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.protocol import MAX_FRAMING_BYTES, MAX_HEADERS
from unit.gateway.conftest import Served, chat
from unit.gateway.http.in_memory import answer_to, connected

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
"""As a body, and never a request."""

OFFERS = {
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    b"http2-settings: AAMAAABkAAQ\r\n",
    "websocket": b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "tls": b"upgrade: TLS/1.0, HTTP/1.1\r\nconnection: UPGRADE\r\n",
    "mixed case and blanks": b"cOnNeCtIoN:   uPgRaDe  \r\nUPGRADE: \th2c \r\n",
    "several headers": b"upgrade: h2c\r\nupgrade: websocket\r\nconnection: x\r\n"
    b"connection: upgrade\r\n",
    "empty": b"connection: upgrade\r\nupgrade:\r\n",
    "unknown": b"connection: upgrade, upgrade\r\nupgrade: \x80odd/9 (thing)\r\n",
}
ONLY_CONNECTION = b"connection: upgrade\r\n"
ONLY_UPGRADE = b"upgrade: h2c\r\n"

REQUESTS = {
    "length": (b"POST /a?b=c HTTP/1.1\r\nhost: x\r\n", b"content-length: 37\r\n", SMUGGLED + b"ab"),
    "no body": (b"GET /a HTTP/1.1\r\nhost: x\r\n", b"", b""),
    "body of length 0": (b"POST /a HTTP/1.1\r\nhost: x\r\n", b"content-length: 0\r\n", b""),
    "chunks": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"transfer-encoding: chunked\r\n",
        b"%x\r\n%b\r\n2;a=b\r\nab\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    ),
    "HEAD": (b"HEAD /a HTTP/1.1\r\nhost: x\r\n", b"", b""),
    "OPTIONS": (b"OPTIONS * HTTP/1.1\r\nhost: x\r\n", b"", b""),
    "GET with a body": (b"GET /a HTTP/1.1\r\nhost: x\r\n", b"content-length: 2\r\n", b"ab"),
    "1.0": (b"POST /a HTTP/1.0\r\n", b"content-length: 2\r\n", b"ab"),
    "100-continue": (
        b"PUT /a HTTP/1.1\r\nhost: x\r\n",
        b"Expect: 100-continue\r\ncontent-length: 2\r\n",
        b"ab",
    ),
    "absolute target": (
        b"POST http://y/a HTTP/1.1\r\nhost: x\r\n",
        b"content-length: 2\r\n",
        b"ab",
    ),
    "two lengths": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"abc",
    ),
    "length and chunks": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"0\r\n\r\n" + SMUGGLED,
    ),
    "odd transfer encoding": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"transfer-encoding: chunked, identity\r\n",
        b"0\r\n\r\n" + SMUGGLED,
    ),
    "no chunk": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"transfer-encoding: chunked\r\n",
        b"zz\r\n" + SMUGGLED,
    ),
    "bare line ends": (b"POST /a HTTP/1.1\r\nhost: x\n", b"content-length: 2\n", b"ab"),
    "trailers": (
        b"POST /a HTTP/1.1\r\nhost: x\r\n",
        b"transfer-encoding: chunked\r\n",
        b"0\r\nx: y\r\n\r\n",
    ),
    "2.0": (b"GET /a HTTP/2.0\r\nhost: x\r\n", b"", b""),
}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request, but for the headers of an offer."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, has_more = body + message["body"], message["more_body"]
    offer = {b"connection", b"upgrade", b"http2-settings"}
    seen = {
        "line": [scope["method"], scope["path"], scope["query_string"].decode()],
        "headers": sorted(
            [name.decode(), value.decode("latin-1")]
            for name, value in scope["headers"]
            if name not in offer and not name.startswith(b"sec-")
        ),
        "body": body.decode(),
    }
    await send_body(send, 200, msgspec.json.encode(seen))


def parts_of(data: bytes, num_bytes: int) -> list[bytes]:
    return [data[start : start + num_bytes] for start in range(0, len(data), num_bytes)]


@pytest.mark.parametrize("offer", [*OFFERS.values(), ONLY_CONNECTION, ONLY_UPGRADE])
@pytest.mark.parametrize("request_name", REQUESTS)
async def test_an_offer_changes_no_answer(request_name: str, offer: bytes) -> None:
    """In one packet, the body in a second one, a byte in each; as first and as second request."""
    line, framing, body = REQUESTS[request_name]
    plain, offered = line + framing + b"\r\n", line + offer + framing + b"\r\n"
    expected = await answer_to(echo, [plain + body])
    assert b"smuggled HTTP" not in expected[0].partition(b"\r\n\r\n")[0]
    assert await answer_to(echo, [offered + body]) == expected
    assert await answer_to(echo, [offered, body]) == await answer_to(echo, [plain, body])
    by_byte = await answer_to(echo, parts_of(plain + body, 1))
    assert await answer_to(echo, parts_of(offered + body, 1)) == by_byte
    first = b"GET /first HTTP/1.1\r\nhost: x\r\n\r\n"
    assert await answer_to(echo, [first, offered + body]) == await answer_to(
        echo, [first, plain + body]
    )


@pytest.mark.parametrize("request_name", ["length", "chunks", "100-continue", "1.0"])
async def test_an_offer_may_be_cut_anywhere(request_name: str) -> None:
    line, framing, body = REQUESTS[request_name]
    expected = await answer_to(echo, [line + framing + b"\r\n", body])
    data = line + OFFERS["h2c"] + framing + b"\r\n" + body
    for cut in range(1, len(data)):
        assert await answer_to(echo, [data[:cut], data[cut:]]) == expected, data[:cut]


@pytest.mark.parametrize("option", [b"close", b"keep-alive"])
@pytest.mark.parametrize("request_name", ["length", "no body", "1.0"])
async def test_the_other_options_of_the_connection_header_count(
    request_name: str, option: bytes
) -> None:
    line, framing, body = REQUESTS[request_name]
    expected = await answer_to(
        echo, [line + b"connection: %b\r\n" % option + framing + b"\r\n" + body]
    )
    for options in (b"%b, upgrade", b"Upgrade,%b"):
        offer = b"connection: " + options % option + b"\r\nupgrade: h2c\r\n"
        assert await answer_to(echo, [line + offer + framing + b"\r\n" + body]) == expected


async def test_requests_with_offers_follow_each_other_on_a_connection() -> None:
    connection, transport = connected(echo)
    line, framing, body = REQUESTS["chunks"]
    for offer in OFFERS.values():
        transport.written = b""
        connection.data_received(line + offer + framing + b"\r\n" + body)
        await turns_of_the_event_loop(6)
        assert transport.written.startswith(b"HTTP/1.1 200 ")
        answer = json.loads(transport.written.partition(b"\r\n\r\n")[2])
        assert answer["body"] == SMUGGLED.decode() + "ab"
    assert not transport.is_closed
    connection.connection_lost(None)


async def test_a_request_pipelined_after_an_offer_is_not_served() -> None:
    """As without the offer: the connection closes after the first answer."""
    line, _, _ = REQUESTS["no body"]
    offered = line + OFFERS["h2c"] + b"\r\n"
    expected = await answer_to(echo, [line + b"connection: close\r\n\r\n"])
    for second in (SMUGGLED, offered, b"\x00\x00\x00\x04\x08garbage"):
        answer, is_closed = await answer_to(echo, [offered + second])
        assert (answer.count(b"HTTP/1.1"), is_closed) == (1, True), second
        assert answer.partition(b"\r\n\r\n")[2] == expected[0].partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nhost: x\r\ncontent-length: 36\r\n\r\n",
        b"CONNECT /a HTTP/1.1\r\nhost: x\r\n" + OFFERS["h2c"] + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/1.1\r\nhost: x\r\n" + OFFERS["h2c"] + b"\r\n",
    ],
)
async def test_what_follows_the_head_of_another_protocol_is_no_request(head: bytes) -> None:
    for parts in ([head + SMUGGLED], [head, SMUGGLED], parts_of(head + SMUGGLED, 1)):
        answer, is_closed = await answer_to(echo, parts)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert is_closed


async def test_an_offer_lifts_no_limit() -> None:
    line, _, _ = REQUESTS["chunks"]
    head = line + OFFERS["h2c"] + b"transfer-encoding: chunked\r\n\r\n"
    framing = [b"1;" + b"a" * 1000 + b"\r\nx\r\n"] * (MAX_FRAMING_BYTES // 1000 + 1)
    answer, is_closed = await answer_to(echo, [head, *framing])
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"no body" in answer
    assert is_closed
    many = b"".join(b"x%d: 1\r\n" % number for number in range(MAX_HEADERS))
    answer, is_closed = await answer_to(echo, [line + OFFERS["h2c"] + many + b"\r\n"])
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert is_closed
    answer, is_closed = await answer_to(
        echo, [line + OFFERS["h2c"], *[b"x: " + b"a" * 10_000] * 10]
    )
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert is_closed


@pytest.mark.parametrize("port_name", ["port", "admin_port"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/health", "/nothing"])
@pytest.mark.parametrize("offer", ["h2c", "websocket"])
async def test_no_body_after_an_offer_is_served_as_a_request(
    shared: Served, port_name: str, path: str, offer: str
) -> None:
    """The body lies in a second packet, and is a request that the port would answer."""
    smuggled = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-request-id: smuggled\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", getattr(shared.gateway, port_name))
    for method in (b"POST", b"GET", b"DELETE"):
        writer.write(
            b"%b %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n%b"
            b"content-length: %d\r\n\r\n" % (method, path.encode(), OFFERS[offer], len(smuggled))
        )
        writer.write(smuggled)
        head = await _head(reader)
        assert b"smuggled" not in head
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        if b"connection: close" in head:
            break
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    async with asyncio.timeout(60):
        rest = await reader.read()
    assert rest.count(b"HTTP/1.1 ") <= 1
    assert b"smuggled" not in rest
    writer.close()


async def test_a_stream_that_was_asked_for_with_an_offer_is_served(served: Served) -> None:
    served.engine.tokens = ["a", "b", "c"]
    body = json.dumps(chat(stream=True)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    for _ in range(2):
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n%b"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
            % (OFFERS["h2c"], len(body))
        )
        writer.write(body)
        async with asyncio.timeout(60):
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"data: [DONE]" in answer
    writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return (await reader.readuntil(b"\r\n\r\n")).lower()

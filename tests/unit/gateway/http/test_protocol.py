"""Malformed and hostile requests get an error of the usual shape, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.protocol import MAX_HEAD_BYTES
from unit.gateway.conftest import Served, start_gateway, until
from unit.gateway.http.in_memory import answer_to, connected

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def hurried() -> AsyncIterator[Served]:
    """A gateway with a short time limit for headers and bodies, for the tests of that limit."""
    async with start_gateway(body_timeout_s=0.8) as running:
        yield running


async def raw(served: Served, *parts: bytes) -> tuple[int, dict[str, object]]:
    """Send bytes, and read until the gateway closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        for part in parts:
            writer.write(part)
        async with asyncio.timeout(60):
            answer = await reader.read()
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
        b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n"
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


START = b"GET /a?"
REST = b" HTTP/1.1\r\nhost: x\r\n"
OFFER = REST + b"connection: upgrade\r\nupgrade: h2c\r\n"
LONG_PARTS = {
    "target": (START, REST + b"\r\n"),
    "value": (START + REST + b"x: ", b"\r\n\r\n"),
    "name": (START + REST, b": x\r\n\r\n"),
    "value after an offer": (START + OFFER + b"x: ", b"\r\n\r\n"),
    "value of the offer": (START + OFFER[:-2], b"\r\n\r\n"),
    "target before an offer": (START, OFFER + b"\r\n"),
}
"""What stands before and after the part of a head that is long."""


async def echo_length(scope: Scope, receive: Receive, send: Send) -> None:
    num_bytes, has_more = 0, True
    while has_more:
        message = await receive()
        num_bytes, has_more = num_bytes + len(message["body"]), message["more_body"]
    await send_body(send, 200, b"%d" % num_bytes)


def cut(data: bytes, num_bytes: int) -> list[bytes]:
    return [data[start : start + num_bytes] for start in range(0, len(data), num_bytes)]


@pytest.mark.parametrize("part_bytes", [300_000, 70_000, 65_536, 1_000])
@pytest.mark.parametrize("body", [b"", b"b" * 5_000, b"b" * 150_000])
@pytest.mark.parametrize("name", LONG_PARTS)
async def test_the_limit_on_a_head_is_exact_however_it_arrives(
    name: str, body: bytes, part_bytes: int
) -> None:
    """In one read with its body, or in several; as the first request and as the second one."""
    before, after = LONG_PARTS[name]
    after = after[:-2] + b"content-length: %d\r\n\r\n" % len(body)
    first = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
    for num_too_many, status in ((0, b"200"), (1, b"431"), (200_000, b"431")):
        num_long = MAX_HEAD_BYTES - len(before) - len(after) + num_too_many
        data = before + b"a" * num_long + after + body
        for earlier in ([], [first]):
            answer, is_closed = await answer_to(echo_length, [*earlier, *cut(data, part_bytes)])
            last = answer.rpartition(b"HTTP/1.1 ")[2]
            assert last[:3] == status
            if status == b"431":
                assert is_closed
                assert b"headers_too_large" in last
            else:
                assert last.endswith(b"%d" % len(body))


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n" * 50_000 + b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\nx:" + b" " * 100_000 + b"y\r\n\r\n",
        b"GET /a HTTP/1.1\r\nhost: x\r\n" + (b"x: " + b"y" * 1_000 + b"\r\n") * 90 + b"\r\n",
    ],
    ids=["blank lines", "blanks", "many headers"],
)
async def test_whatever_makes_a_head_long_counts(head: bytes) -> None:
    for parts in ([head], cut(head, 1_000)):
        answer, is_closed = await answer_to(echo_length, parts)
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert is_closed


async def test_a_long_head_after_a_body_that_was_refused_is_refused() -> None:
    """The connection is kept, and the rest of the body arrives in one read with the next head."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send_body(send, 200, b"")

    upload = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"
    head = b"GET /a HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 200_000 + b"\r\n\r\n"
    answer, is_closed = await answer_to(refuse, [upload, b"abcdef" + head])
    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.count(b"HTTP/1.1 431 ") == 1
    assert is_closed


async def test_a_connection_that_asks_nothing_in_time_ends_without_an_answer() -> None:
    """A client that opens connections in advance would take a 408 for that of its next request."""
    for sent in (b"", b"\r\n"):
        connection, transport = connected(echo_length, head_timeout_s=0.0)
        connection.data_received(sent)
        await until(lambda: transport.is_closed)  # noqa: B023
        assert transport.written == b""
        connection.connection_lost(None)


async def test_headers_that_are_too_slow_are_a_408(hurried: Served) -> None:
    status, answer = await raw(hurried, b"GET /health HTTP/1.1\r\n")
    assert (status, answer["error"]["code"]) == (408, "headers_timeout")  # type: ignore[index]


@pytest.mark.parametrize(("num_headers", "status"), [(90, 200), (200, 431)])
async def test_the_number_of_headers_is_limited(
    served: Served, num_headers: int, status: int
) -> None:
    """Short ones: 64 KiB of them would take 2 MB as Python objects."""
    headers = b"".join(b"x%d: 1\r\n" % number for number in range(num_headers))
    head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + headers
    answered, answer = await raw(served, head + b"\r\n")
    assert answered == status
    if status == 431:
        assert answer["error"]["code"] == "headers_too_large"  # type: ignore[index]


async def test_a_connection_may_be_idle_between_requests(hurried: Served) -> None:
    """The time limit for the headers starts with their first byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hurried.gateway.port)
    for _ in range(2):
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        # sleep: longer than the limit; any longer pause has the same result
        await asyncio.sleep(1.0)
    writer.close()


async def test_a_body_announced_as_too_long_is_refused_without_reading_it(served: Served) -> None:
    status, answer = await raw(
        served,
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"expect: 100-continue\r\ncontent-length: 99999999999\r\n\r\n",
    )
    assert (status, answer["error"]["code"]) == (413, "body_too_large")  # type: ignore[index]


BODY = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 9, "stream": True}).encode()
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
STREAM = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n"
END = b"data: [DONE]\n\n\r\n0\r\n\r\n"


async def until_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.readuntil(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "stray", [b"\r\n", b"\r\n" * 40_000, b"GET /hea", b"\x00garbage", b"x" * 70_000]
)
async def test_no_error_is_written_into_an_answer(hurried: Served, stray: bytes) -> None:
    """The stream takes longer than the time limit for headers."""
    hurried.engine.mode, hurried.engine.tokens = "drip", ["a"] * 60
    reader, writer = await asyncio.open_connection("127.0.0.1", hurried.gateway.port)
    writer.write(STREAM)
    async with asyncio.timeout(60):
        answer = await reader.readuntil(b"data: ")
    writer.write(stray)
    answer += await until_end(reader)
    assert answer.endswith(END)
    assert answer.count(b"HTTP/1.1") == 1
    writer.close()


async def test_a_blank_line_after_a_body_is_no_request(hurried: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hurried.gateway.port)
    for _ in range(2):
        writer.write(STREAM + b"\r\n")
        assert (await until_end(reader)).endswith(END)
    writer.write(b"\r\n")
    async with asyncio.timeout(60):
        assert await reader.read() == b""  # no 408: nothing was asked
    writer.close()


async def test_the_rest_of_a_head_may_follow_after_the_answer(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(STREAM + b"GET /health HT")
    assert (await until_end(reader)).endswith(END)
    writer.write(b"TP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_the_time_for_a_head_that_began_during_an_answer_is_limited(hurried: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", hurried.gateway.port)
    writer.write(STREAM + b"GET /health HT")
    assert (await until_end(reader)).endswith(END)
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_pipelined_request_is_not_served(served: Served) -> None:
    """The connection closes after the first answer, so that the client sends the second again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(STREAM + STREAM)
    async with asyncio.timeout(60):
        answer = await reader.read()
    assert answer.endswith(END)
    assert answer.count(b"HTTP/1.1") == 1
    assert served.engine.num_begun == 1
    writer.close()


@pytest.mark.parametrize("num_requests", [1, 2, 50])
async def test_a_client_that_pipelines_and_leaves_is_noticed(
    served: Served, num_requests: int
) -> None:
    served.engine.mode = "hang"
    _, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    writer.write(STREAM * num_requests)
    await until(lambda: served.engine.num_begun == 1)
    writer.close()
    await until(lambda: served.engine.num_aborted == 1)
    await until(lambda: served.num_in_flight == 0)
    assert served.engine.num_begun == 1


async def test_trailers_are_a_400(served: Served) -> None:
    status, answer = await raw(served, CHUNKED + b"0\r\nx-checksum: 5\r\n\r\n")
    assert (status, answer["error"]["code"]) == (400, "invalid_http")  # type: ignore[index]
    assert served.engine.num_begun == 0


@pytest.mark.parametrize(
    "framing",
    [
        b"0\r\nx: " + b"a" * 100_000,
        b"0\r\n" + b"x: a\r\n" * 20_000,
        b"1;" + b"a" * 100_000,
        b"1;a=b\r\nx\r\n" * 100_000,
        b"0" * 100_000,
    ],
)
async def test_the_framing_of_a_chunked_body_is_limited(served: Served, framing: bytes) -> None:
    """Sent in small pieces, as bytes that arrive with the end of a head are not counted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    answering = asyncio.create_task(reader.readuntil(b"}}"))
    writer.write(CHUNKED)
    for start in range(0, len(framing), 10_000):
        if answering.done() or writer.is_closing():
            break
        writer.write(framing[start : start + 10_000])
        await turns_of_the_event_loop()
    async with asyncio.timeout(60):
        answer = await answering
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_http"
    assert served.engine.num_begun == 0
    writer.close()

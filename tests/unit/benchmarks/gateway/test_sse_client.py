"""The client of the gateway benchmarks, against small servers with known behaviour."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from benchmarks.gateway.sse_client import Exchange, Pool

pytestmark = pytest.mark.asyncio

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]}\n\n'
TOKEN = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"length"}]}\n\n'
DONE = b"data: [DONE]\n\n"


@asynccontextmanager
async def pool_to(handler: Handler) -> AsyncIterator[Pool]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    pool = Pool("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield pool
    finally:
        pool.close()
        server.close()


async def ask(pool: Pool) -> Exchange:
    ended: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
    pool.send(b"{}", ended.set_result, due_s=0.0)
    async with asyncio.timeout(60):
        return await ended


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def read_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


async def test_arrivals_end_with_the_finish_reason_and_connections_are_reused() -> None:
    num_connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_connections
        num_connections += 1
        for _ in range(2):
            await read_request(reader)
            writer.write(HEAD)
            for part in (ROLE + TOKEN, TOKEN, LAST, DONE):
                writer.write(chunk(part))
                # sleep: each part is read before the next one is written, however long it takes
                await asyncio.sleep(0.05)
            writer.write(b"0\r\n\r\n")

    async with pool_to(handler) as pool:
        for _ in range(2):
            exchange = await ask(pool)
            assert (exchange.status, exchange.is_complete) == (200, True)
            assert len(exchange.arrivals_s) == 3
    assert num_connections == 1


async def test_a_stream_that_breaks_off_is_not_complete() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + chunk(TOKEN))
        await writer.drain()
        writer.close()

    async with pool_to(handler) as pool:
        exchange = await ask(pool)
    assert (exchange.status, exchange.is_complete, len(exchange.arrivals_s)) == (200, False, 1)


async def test_a_refusal_keeps_its_body() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy")

    async with pool_to(handler) as pool:
        exchange = await ask(pool)
    assert (exchange.status, exchange.is_complete, exchange.body) == (503, True, b"busy")


async def test_an_absent_server_is_status_0() -> None:
    with socket.socket() as bound:  # nothing listens there, and nothing else can
        bound.bind(("127.0.0.1", 0))
        exchange = await ask(Pool("127.0.0.1", bound.getsockname()[1]))
    assert (exchange.status, exchange.is_complete) == (0, False)


async def test_closing_the_pool_ends_open_exchanges() -> None:
    has_arrived = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        has_arrived.set()
        await reader.read()

    async with pool_to(handler) as pool:
        asking = asyncio.create_task(ask(pool))
        await asyncio.wait_for(has_arrived.wait(), 60)
        pool.close()
        exchange = await asking
    assert (exchange.status, exchange.is_complete) == (0, False)

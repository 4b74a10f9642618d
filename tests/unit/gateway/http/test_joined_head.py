"""The head and the first bytes of an answer are sent in one write, complete and in order."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from paceline.runtime.gateway.http.joined_head import JoinedHead
from unit.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


class RecordingTransport:
    """Records what is written to it."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def joined() -> tuple[RecordingTransport, JoinedHead]:
    recorded = RecordingTransport()
    return recorded, JoinedHead(cast(asyncio.Transport, recorded))


async def test_head_and_first_bytes_are_one_write_and_later_bytes_one_each() -> None:
    recorded, answer = joined()
    for data in (b"head,", b"one,", b"two,", b"three"):
        answer.write(data)
    assert recorded.writes == [b"head,one,", b"two,", b"three"]
    await asyncio.sleep(0)
    assert len(recorded.writes) == 3


async def test_a_head_alone_is_sent_at_the_next_iteration_of_the_loop() -> None:
    recorded, answer = joined()
    answer.write(b"head,")
    assert recorded.writes == []
    await asyncio.sleep(0)
    assert recorded.writes == [b"head,"]
    answer.write(b"one")
    assert recorded.writes == [b"head,", b"one"]


async def test_closing_sends_a_delayed_head() -> None:
    recorded, answer = joined()
    answer.write(b"head")
    answer.close()
    assert (recorded.writes, answer.is_closing()) == ([b"head"], True)
    await asyncio.sleep(0)
    assert recorded.writes == [b"head"]


async def test_nothing_is_written_to_a_closed_connection() -> None:
    recorded, answer = joined()
    answer.write(b"head")
    recorded.is_closed = True
    await asyncio.sleep(0)
    assert recorded.writes == []


async def test_the_first_read_of_an_answer_brings_its_body_too(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            first = await reader.read(65536)
    finally:
        writer.close()
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b'\r\n\r\n{"status":"alive"}')


async def test_a_client_that_expects_100_continue_gets_it(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
    try:
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\n"
            b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"
        )
        async with asyncio.timeout(60):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"{}")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    finally:
        writer.close()

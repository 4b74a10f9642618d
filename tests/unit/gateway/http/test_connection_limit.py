"""At the limit of connections, a new one replaces the one that has waited longest for a request."""

from __future__ import annotations

import asyncio
import itertools
import json
import random

import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.connection_limit import ConnectionLimit
from paceline.runtime.gateway.http.protocol import GuardedProtocol
from unit.gateway.conftest import chat, start_gateway, until
from unit.gateway.http.in_memory import RecordingTransport, connected

REQUEST = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nabc"


class Port:
    """A port whose answers end when the test releases them."""

    def __init__(self, max_connections: int) -> None:
        self.limit = ConnectionLimit[GuardedProtocol](max_connections)
        self.release = asyncio.Event()

    def connect(self, *parts: bytes) -> tuple[GuardedProtocol, RecordingTransport]:
        connection, transport = connected(self.app, limit=self.limit)
        for part in parts:
            connection.data_received(part)
        return connection, transport

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            if not message["more_body"]:
                await self.release.wait()
                await send_body(send, 200, b"{}")
                return


async def test_the_longest_wait_ends_first_and_the_time_of_a_request_is_no_wait() -> None:
    port = Port(3)
    port.release.set()
    (first, one), (_, two), (_, three) = (port.connect() for _ in range(3))
    first.data_received(REQUEST)
    await turns_of_the_event_loop(4)
    assert one.written.startswith(b"HTTP/1.1 200 ")
    port.connect()
    assert (one.is_closed, two.is_closed, three.is_closed) == (False, True, False)
    port.connect()
    assert (one.is_closed, three.is_closed) == (False, True)
    port.connect()
    assert one.is_closed
    assert one.written.count(b"HTTP/1.1") == 1  # no error: it would answer the next request


@pytest.mark.parametrize(
    "sent", [[b"G"], [b"\r\nGET /hea"], [REQUEST[:-2]], [REQUEST[:9], REQUEST[9:-2]]]
)
async def test_a_connection_that_has_sent_part_of_a_head_is_replaced_with_an_error(
    sent: list[bytes],
) -> None:
    port = Port(1)
    _, waiting = port.connect(*sent)
    _, new = port.connect()
    assert (waiting.is_closed, new.is_closed) == (True, False)
    assert b"too_many_connections" in waiting.written


@pytest.mark.parametrize("sent", [[], [b"\r\n"], [b"\r", b"\n\r\n"]])
async def test_a_connection_that_asked_nothing_is_replaced_without_an_answer(
    sent: list[bytes],
) -> None:
    """A client that opens connections in advance would take it for that of its next request."""
    port = Port(1)
    _, waiting = port.connect(*sent)
    _, new = port.connect()
    assert (waiting.is_closed, new.is_closed) == (True, False)
    assert waiting.written == b""


async def test_an_upload_is_replaced_only_when_no_other_connection_waits() -> None:
    port = Port(2)
    _, uploading = port.connect(UPLOAD)
    _, idle = port.connect()
    await turns_of_the_event_loop(2)
    _, new = port.connect(REQUEST)
    assert (uploading.is_closed, idle.is_closed) == (False, True)
    port.connect()
    assert (uploading.is_closed, new.is_closed) == (True, False)
    assert b"too_many_connections" in uploading.written
    port.release.set()
    await turns_of_the_event_loop(4)


async def test_a_new_connection_is_refused_when_all_are_being_answered() -> None:
    port = Port(2)
    connections = [port.connect(REQUEST) for _ in range(2)]
    _, refused = port.connect()
    assert b"too_many_connections" in refused.written
    assert refused.is_closed
    assert not any(transport.is_closed for _, transport in connections)
    port.release.set()
    await turns_of_the_event_loop(4)
    assert all(t.written.startswith(b"HTTP/1.1 200 ") for _, t in connections)
    port.connect()
    assert [transport.is_closed for _, transport in connections] == [True, False]


async def test_an_answer_that_is_still_being_read_is_not_cut() -> None:
    port = Port(1)
    port.release.set()
    connection, reading = port.connect()
    reading.num_unread = 5
    connection.data_received(REQUEST)
    await turns_of_the_event_loop(4)
    _, refused = port.connect()
    assert (reading.is_closed, refused.is_closed) == (False, True)
    reading.num_unread = 0
    connection.resume_writing()
    port.connect()
    assert reading.is_closed


async def test_a_connection_that_ended_makes_room() -> None:
    port = Port(1)
    connection, _ = port.connect(REQUEST)
    connection.connection_lost(None)
    await turns_of_the_event_loop(4)
    _, new = port.connect()
    assert not new.is_closed


def test_no_more_connections_are_counted_than_allowed_whatever_happens() -> None:
    """Random events; a model that is a list says which connection is the one to close."""
    rng = random.Random(1)
    limit = ConnectionLimit[int](5)
    waiting, uploading, answering = list[int](), list[int](), list[int]()
    for number in range(5000):
        groups = (waiting, uploading, answering)
        if rng.random() < 0.4:
            longest = (waiting or uploading)[:1]
            full = sum(map(len, groups)) == 5
            assert limit.add(number) == ((longest or [number])[0] if full else None)
            if full and longest:
                (waiting or uploading).pop(0)
            if not full or longest:
                waiting.append(number)
            continue
        one = rng.choice([*itertools.chain(*groups), -1])
        for group in groups:
            if one in group:
                group.remove(one)
        event = rng.randrange(4)
        if event == 0:
            limit.remove(one)
        elif event == 1:
            limit.set_waiting(one)
        elif event == 2:
            limit.set_uploading(one)
        else:
            limit.set_answering(one)
        if event and one >= 0:
            groups[event - 1].append(one)
    assert {*waiting, *uploading, *answering} == limit._all


@pytest.mark.parametrize("port_name", ["port", "admin_port"])
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nx: ", UPLOAD])
async def test_both_ports_answer_under_a_flood_of_connections(port_name: str, sent: bytes) -> None:
    async with start_gateway(max_connections=20) as served:
        port = getattr(served.gateway, port_name)
        client = served.http if port_name == "port" else served.admin
        path = "/health" if port_name == "port" else "/metrics"
        opened = []
        for number in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            opened.append(writer)
            if number % 10 == 9:
                # An idle connection of the client might have been replaced.
                answer = await client.get(path, headers={"connection": "close"})
                assert answer.status_code == 200
        for writer in opened:
            writer.close()


async def test_a_stream_is_not_cut_by_a_flood_of_connections() -> None:
    async with start_gateway(max_connections=5) as served:
        served.engine.mode = "hang"
        body = json.dumps(chat(stream=True)).encode()
        reader, stream = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        stream.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await until(lambda: served.engine.num_begun == 1)
        opened = [await asyncio.open_connection("127.0.0.1", served.gateway.port) for _ in range(9)]
        for other, _ in opened[:5]:  # the first ones had to make room
            async with asyncio.timeout(60):
                await other.read()
        assert served.engine.num_aborted == 0
        assert not reader.at_eof()
        for writer in (stream, *(writer for _, writer in opened)):
            writer.close()
        await until(lambda: served.num_in_flight == 0)

"""Every way in which an answer breaks off reaches the reader, and soon."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.proxy import upstream
from paceline.runtime.gateway.proxy.upstream import (
    Broken,
    Liveness,
    NotSent,
    TooLarge,
    Unreachable,
    UpstreamResponse,
    Upstreams,
)
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.settings import GatewaySettings
from unit.no_descriptors import no_descriptors

LIMIT_S = 60.0
GONE = Replica("gone", "/run/r0.sock", "tiny", "ready")
KEPT = Replica("kept", "http://host:8000", "tiny", "ready")
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n"
CLOSED_ENDS = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def answering(*packets: bytes) -> AsyncIterator[UpstreamResponse]:
    """An answer of a server that sends `packets` one by one, then closes."""
    may_go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for number, packet in enumerate(packets):
            if number:
                await may_go_on.wait()
            writer.write(packet)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    replica = Replica("one", f"http://127.0.0.1:{port}", "model", "ready")
    async with server, asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        response = await upstreams.post(replica, "/", b"{}", "id")
        may_go_on.set()
        yield response
        response.close()


@pytest.mark.parametrize(
    "packets",
    [
        (CHUNKED, b"zz\r\nhello\r\n"),
        (CHUNKED, b"5\r\nhello\r\n", b"zz\r\nhello\r\n"),
        (CHUNKED + b"5\r\nhello\r\n", b"6\r\n"),
        (CHUNKED + b"5\r\nhello\r\n", b"5\r\nhello world\r\n0\r\n\r\n"),
        (SIZED, b"hello"),
    ],
)
async def test_a_body_that_breaks_off_raises(packets: Sequence[bytes]) -> None:
    async with answering(*packets) as response:
        with pytest.raises(Broken):
            await response.read_all(1000)


@pytest.mark.parametrize(
    "packets",
    [
        (CHUNKED, b"b\r\nhello world\r\n", b"0\r\n\r\n"),
        (CHUNKED + b"b\r\nhello world\r\n0\r\n\r\n",),
        (SIZED + b"hello", b" world"),
        (CLOSED_ENDS + b"hello", b" world"),
    ],
)
async def test_a_complete_body_is_read_to_its_end(packets: Sequence[bytes]) -> None:
    async with answering(*packets) as response:
        assert await response.read_all(1000) == b"hello world"


async def test_sessions_of_addresses_that_are_gone_are_closed() -> None:
    async with Upstreams(GatewaySettings()) as upstreams:
        sessions = [upstreams._session(replica)[0] for replica in (GONE, KEPT)]
        await upstreams.keep_only([KEPT.address])
        assert [session.closed for session in sessions] == [True, False]
        assert upstreams._session(KEPT)[0] is sessions[1]


async def test_a_body_that_is_too_long_is_the_fault_of_nobody() -> None:
    async with answering(CHUNKED, b"b\r\nhello world\r\n", b"0\r\n\r\n") as response:
        with pytest.raises(TooLarge):
            await response.read_all(10)


@pytest.mark.parametrize("packets", [(SIZED + b"hello",), (CHUNKED, b"5\r\nhello\r\n", b"zz")])
async def test_of_an_error_that_breaks_off_the_beginning_is_read(packets: Sequence[bytes]) -> None:
    """Its status is known."""
    async with answering(*packets) as response:
        assert await response.read_error(100) in (b"hello", b"")


async def test_of_an_error_that_does_not_end_what_came_in_time_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "ERROR_BODY_S", 0.05)
    is_read = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SIZED + b"hello")
        await is_read.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    replica = Replica(
        "one", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "model", "ready"
    )
    async with server, asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        response = await upstreams.post(replica, "/", b"{}", "id")
        assert await response.read_error(100) in (b"hello", b"")
        is_read.set()
        response.close()


async def test_the_start_of_a_long_body_is_read() -> None:
    async with answering(CHUNKED, b"b\r\nhello world\r\n", b"0\r\n\r\n") as response:
        assert await response.read_error(5) == b"hello"
    async with answering(SIZED + b"hello", b" world") as response:
        assert await response.read_error(100) == b"hello world"


async def test_a_replica_cannot_send_ahead_of_a_client_that_does_not_read() -> None:
    """The kernel would enlarge the receive buffer of a reader to several MB, once it has read."""
    async with answering(CLOSED_ENDS, *[b"x" * 2**20] * 16) as response:
        for _ in range(64):
            await response.read_some()  # 1 to 2 MB
        connection = response._response.connection
        assert connection is not None
        assert connection.transport is not None
        opened = connection.transport.get_extra_info("socket")
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 64 * 1024


async def test_a_long_answer_is_read_in_short_parts() -> None:
    """A stream whose client reads slowly holds several copies of a part."""
    async with answering(CLOSED_ENDS, b"x" * 2**20) as response:
        parts = [part async for part in _parts(response)]
    assert sum(map(len, parts)) == 2**20
    assert max(map(len, parts)) <= 16 * 1024


async def _parts(response: UpstreamResponse) -> AsyncIterator[bytes]:
    while part := await response.read_some():
        yield part


async def test_a_request_that_ends_releases_a_body_that_its_hung_replica_does_not_read() -> None:
    """The connection would hold the whole body until the replica reads it, and send it then."""
    is_connected, has_ended = asyncio.Event(), asyncio.Event()
    num_received = asyncio.get_running_loop().create_future()
    body = b"x" * (16 * 2**20)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_connected.set()
        await has_ended.wait()
        received = 0
        try:
            while part := await reader.read(2**20):
                received += len(part)
        except ConnectionError:
            pass  # a connection that is reset has ended as well
        num_received.set_result(received)
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    replica = Replica("one", f"http://127.0.0.1:{port}", "model", "ready")
    async with server, asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        post = asyncio.create_task(upstreams.post(replica, "/", body, "id"))
        await is_connected.wait()
        await turns_of_the_event_loop(200)  # the buffers on the way fill; fewer bytes pass too
        post.cancel()
        await asyncio.gather(post, return_exceptions=True)
        has_ended.set()
        assert await num_received < len(body)


async def test_a_part_that_waits_to_be_sent_keeps_no_more_than_itself() -> None:
    """A view of the body, left in the buffer of a connection, would keep all of it."""
    body = b"x" * 200_000
    parts = [part async for part in upstream._in_parts(body)]
    assert b"".join(parts) == body
    assert {type(part) for part in parts} == {bytes}
    assert max(map(len, parts)) <= 64 * 1024


async def test_a_long_body_arrives_whole_and_with_its_length() -> None:
    received: list[bytes] = []
    body = bytes(range(256)) * 1000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        received.append(await reader.readexactly(len(body)))
        writer.write(SIZED + b"hello world")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    replica = Replica("one", f"http://127.0.0.1:{port}", "model", "ready")
    async with server, asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        response = await upstreams.post(replica, "/", body, "id")
        assert await response.read_all(100) == b"hello world"
    head = received[0].lower()
    assert b"content-length: 256000" in head
    assert b"transfer-encoding" not in head
    assert received[1] == body


@pytest.mark.parametrize("address", ["/run/no/such.sock", "http://127.0.0.1:1"])
async def test_a_refused_connection_is_the_replicas_fault(address: str) -> None:
    async with Upstreams(GatewaySettings()) as upstreams:
        with pytest.raises(Unreachable):
            await upstreams.post(Replica("r", address, "m", "ready"), "/", b"{}", "id")


@pytest.mark.parametrize("address", ["/run/no/such.sock", "http://127.0.0.1:1"])
async def test_without_descriptors_nothing_is_sent(address: str) -> None:
    """The replica is not asked, and is not to blame."""
    async with Upstreams(GatewaySettings()) as upstreams:
        replica = Replica("r", address, "m", "ready")
        with no_descriptors(), pytest.raises(NotSent):
            await upstreams.post(replica, "/", b"{}", "id")


async def test_a_name_that_does_not_resolve_is_not_the_replicas_fault() -> None:
    async with Upstreams(GatewaySettings()) as upstreams:
        replica = Replica("r", "http://replica.invalid:8000", "m", "ready")
        with pytest.raises(NotSent):
            await upstreams.post(replica, "/", b"{}", "id")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Liveness.LIVES),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", Liveness.LIVES),
        (b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", Liveness.LIVES),
        (b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", Liveness.ENDED),
        (b"", Liveness.ENDED),
    ],
)
async def test_a_replica_has_ended_if_its_health_check_fails(
    answer: bytes, expected: Liveness
) -> None:
    """Without an answer the connection is closed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"GET /health HTTP/1.1\r\n"
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    replica = Replica("one", f"http://127.0.0.1:{port}", "model", "ready")
    async with asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        async with server:
            assert await upstreams.liveness(replica, 60) is expected
        assert await upstreams.liveness(replica, 60) is Liveness.ENDED  # nobody listens any more
        assert await upstreams.liveness(GONE, 60) is Liveness.ENDED


async def test_a_replica_whose_socket_is_kept_and_not_served_is_silent() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    replica = Replica("one", f"http://127.0.0.1:{silent.getsockname()[1]}", "model", "ready")
    with silent:
        async with asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
            assert await upstreams.liveness(replica, 0.05) is Liveness.SILENT


async def test_a_gateway_without_descriptors_does_not_know_whether_a_replica_has_ended() -> None:
    async with asyncio.timeout(LIMIT_S), Upstreams(GatewaySettings()) as upstreams:
        with no_descriptors():
            assert await upstreams.liveness(KEPT, 60) is Liveness.LIVES

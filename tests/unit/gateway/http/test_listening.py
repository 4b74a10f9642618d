"""A taken port is named with its setting, and clients that wait are accepted together."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import struct

import pytest
import uvloop
from polling import turns_of_the_event_loop, until, wait_until

from paceline.runtime.gateway import GatewaySettings, PortTaken, serve_gateway
from paceline.runtime.gateway.http.asgi import Receive, Scope, Send, send_body
from paceline.runtime.gateway.http.listening import accepting_sockets, bind, serving
from unit.gateway.conftest import FixedReplicas

NUM_CLIENTS = 8


async def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = GatewaySettings(port=port, admin_port=0)
        with pytest.raises(PortTaken, match=f"Port {port} on 127.0.0.1 cannot be opened"):
            async with serve_gateway(settings, FixedReplicas([])):
                pass


def test_clients_that_connect_during_a_long_turn_of_the_event_loop_are_accepted_in_the_next() -> (
    None
):
    """libuv accepts one connection per listening socket and turn."""
    turns_of_requests = uvloop.run(_turns_of_requests())
    assert len(turns_of_requests) == NUM_CLIENTS
    assert turns_of_requests[-1] - turns_of_requests[0] <= 1


def test_the_listening_socket_of_several_processes_never_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flag is that of the socket, not of the process: one that sets it blocks the others."""
    listener = bind("127.0.0.1", 0, "port")
    inherited = socket.socket(fileno=listener.dup().detach())
    was_blocking: list[bool] = []
    dup = socket.socket.dup

    def recording_dup(self: socket.socket) -> socket.socket:
        made = dup(self)
        was_blocking.append(os.get_blocking(listener.fileno()))
        return made

    monkeypatch.setattr(socket.socket, "dup", recording_dup)
    for accepting in accepting_sockets(inherited):
        accepting.close()
    listener.close()
    assert was_blocking == [False] * (NUM_CLIENTS - 1)


def test_no_duplicate_of_the_listening_socket_stays_open() -> None:
    """The kernel would still accept connections, and nothing would serve them."""
    uvloop.run(_serve_until_refused(is_accepting=False))
    uvloop.run(_serve_until_refused(is_accepting=True))


async def _serve_until_refused(*, is_accepting: bool) -> None:
    """Without `is_accepting` the port is closed while the server serves on, else by its end."""
    listener = bind("127.0.0.1", 0, "port")
    address = listener.getsockname()
    async with serving(_answer, listener, GatewaySettings(), drain_s=5) as listening:
        await turns_of_the_event_loop()
        socket.create_connection(address).close()
        listening.discourage(is_accepting=is_accepting)
        if not is_accepting:
            await _wait_until_refused(address)
        assert not listening.task.done()
    await _wait_until_refused(address)


async def _wait_until_refused(address: tuple[str, int]) -> None:
    def is_refused() -> bool:
        with socket.socket() as client:
            return client.connect_ex(address) == errno.ECONNREFUSED

    await until(is_refused)


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send_body(send, 200, b"{}")


async def _turns_of_requests() -> list[int]:
    """The turn of the event loop in which each request begins, of clients that all wait."""
    loop, turns, num_turns = asyncio.get_running_loop(), list[int](), 0
    all_began = asyncio.Event()

    def count_turn() -> None:
        nonlocal num_turns
        num_turns += 1
        loop.call_soon(count_turn)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        turns.append(num_turns)
        if len(turns) == NUM_CLIENTS:
            all_began.set()
        await send_body(send, 200, b"{}")

    listener = bind("127.0.0.1", 0, "port")
    address = listener.getsockname()
    async with serving(app, listener, GatewaySettings(), drain_s=5) as listening:
        await turns_of_the_event_loop()
        assert not listening.task.done()
        clients = [socket.create_connection(address) for _ in range(NUM_CLIENTS)]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        _wait_until_arrived(listener, clients)
        count_turn()
        async with asyncio.timeout(60):
            await all_began.wait()
        for client in clients:
            client.close()
    return turns


def _wait_until_arrived(listener: socket.socket, clients: list[socket.socket]) -> None:
    """Block until the kernel has queued all connections and their requests."""
    wait_until(
        lambda: _num_unacked(listener) >= len(clients) and not any(map(_num_unacked, clients))
    )


def _num_unacked(connection: socket.socket) -> int:
    """Packets on their way to the peer; of a listening socket, connections not yet accepted."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    (num_unacked,) = struct.unpack_from("I", info, 24)  # tcpi_unacked, see linux/tcp.h
    return int(num_unacked)


def test_connections_are_accepted_again_after_the_descriptors_ran_out() -> None:
    """Those that came meanwhile are closed; the port stays open."""
    uvloop.run(_run_out_of_descriptors())


async def _run_out_of_descriptors() -> None:
    listener = bind("127.0.0.1", 0, "port")
    address = listener.getsockname()
    async with serving(_answer, listener, GatewaySettings(), drain_s=5) as listening:
        await _ask(socket.create_connection(address))
        early = socket.socket()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(map(int, os.listdir("/dev/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
        taken = list[int]()
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(early.fileno()))
            early.setblocking(False)
            async with asyncio.timeout(60):
                await asyncio.get_running_loop().sock_connect(early, address)
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.get_running_loop().sock_recv(early, 1) == b""
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            early.close()
            for descriptor in taken:
                os.close(descriptor)
        await _ask(socket.create_connection(address))
        assert not listening.task.done()


async def _ask(client: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=client)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    await writer.wait_closed()  # its descriptor is free

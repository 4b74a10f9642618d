"""Open, serve and close one port inside a process that also does other work."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn

from paceline.runtime.gateway.http.asgi import App
from paceline.runtime.gateway.http.connection_limit import ConnectionLimit
from paceline.runtime.gateway.http.protocol import CLOSE, GuardedProtocol
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import CLIENT_IDLE_S

_SOCKET_BUFFER_BYTES = {socket.SO_SNDBUF: 64 * 1024, socket.SO_RCVBUF: 256 * 1024}
"""Of each connection, in the kernel, which would let them grow to several MB; Linux takes twice as
much. At a round trip of 100 ms, they carry at least 0.6 MB of answers and 2.5 MB of bodies per
second. An answer whose client does not read stays in its buffer; a body is read as it arrives."""

_ACCEPTED_PER_TURN = 8
"""New connections that one turn of the event loop accepts. Chosen empirically: a client that waits
for seven others waits for one turn."""


_FLAGS = {"port": " (--port)", "admin_port": " (--admin-port)"}


class PortTaken(Exception):
    """A port cannot be opened. The message names the port, the reason and the setting."""


class HostUnknown(PortTaken):
    """A host is not an address of this machine, nor a name of one."""


def bind(host: str, port: int, setting: str, *, listens: bool = True) -> socket.socket:
    """A listening socket. The message of `PortTaken` names `setting`.

    Without `listens`, it only finds out whether it could listen: no client can connect.
    """
    family, kind, protocol, address = resolve(host, port, setting)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for option, num_bytes in _SOCKET_BUFFER_BYTES.items():  # connections inherit both
            listener.setsockopt(socket.SOL_SOCKET, option, num_bytes)
        listener.bind(address)
        if listens:
            listener.listen(2048)  # clients may connect from here on, and wait until it is served
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise HostUnknown(
                f"The address {host!r} is not one of this machine; set {_host_setting(setting)} to "
                "one that is."
            ) from None
        raise PortTaken(
            f"Port {port} on {host} cannot be opened ({error.strerror}); set server.{setting}"
            f"{_FLAGS.get(setting, '')} to a free one, or to 0 to have one chosen."
        ) from None
    listener.setblocking(False)
    return listener


def is_bound_to(listener: socket.socket, host: str, port: int) -> bool:
    """Whether `bind(host, port, …)` would give a socket of the same address; never for port 0."""
    family, _, _, address = resolve(host, port, "host")
    return listener.family == family and listener.getsockname()[:2] == address[:2]


def resolve(
    host: str, port: int, setting: str
) -> tuple[socket.AddressFamily, socket.SocketKind, int, tuple[Any, ...]]:
    """The address that a port listens on. Raises `HostUnknown`."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, ValueError) as error:  # ValueError: not a name of the DNS at all
        raise HostUnknown(
            f"The address {host!r} is unknown ({error}); set {_host_setting(setting)} to an "
            "address of this machine."
        ) from None
    return family, kind, protocol, address


def listen_address(
    host: str, port: int = 0, setting: str = "port"
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IP address that a port listens on; that of an IPv4 address in IPv6 form (::ffff:…) is the
    IPv4 address. Raises `HostUnknown`."""
    text = str(resolve(host, port, setting)[3][0])
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _host_setting(setting: str) -> str:
    return f"server.{setting.replace('port', 'host')}"


def accepting_sockets(listener: socket.socket) -> list[socket.socket]:
    """The listening socket and duplicates of it, which accept from the same queue.

    libuv, since 1.45, accepts one connection per socket and turn. While large bodies arrive, a turn
    takes several milliseconds, and new clients would wait for one turn each, also those that are
    refused at once.
    """
    # Python takes a socket that a process inherits for a blocking one, and `dup` would make it one,
    # in every process that accepts from it.
    listener.setblocking(False)
    return [listener, *(listener.dup() for _ in range(_ACCEPTED_PER_TURN - 1))]


class Listening:
    """A port being served."""

    def __init__(self, server: uvicorn.Server, task: asyncio.Task[None]) -> None:
        self.task = task
        """Ends before the block does only when the server fails."""
        self._server = server

    def discourage(self, *, is_accepting: bool) -> None:
        """Serve on, but have clients leave: answers that have not begun say `Connection: close`.

        Without `is_accepting`, no new connection is accepted; idle ones are still served. Whatever
        waits in the queue of the listening socket stays there for other processes that have it.
        """
        server = self._server
        server.config.encoded_headers.append(CLOSE)  # uvicorn copies them about once a second
        server.server_state.default_headers = [*server.server_state.default_headers, CLOSE]
        for connection in server.server_state.connections:
            assert isinstance(connection, GuardedProtocol)
            connection.announce_end()
        if not is_accepting:
            for accepting in server.servers:
                accepting.close()

    def cut(self) -> None:
        """End requests in flight without draining, now or when the server stops.

        Their clients get an error.
        """
        self._server.config.timeout_graceful_shutdown = 0
        if self._server.should_exit:
            for request in self._server.server_state.tasks:
                request.cancel()


@contextlib.asynccontextmanager
async def serving(
    app: App,
    listener: socket.socket,
    settings: GatewaySettings,
    *,
    drain_s: float,
    max_connections: int | None = None,
) -> AsyncIterator[Listening]:
    """Serve until the block ends; then accept no new connections, and drain at most `drain_s`.

    `max_connections` is that of the settings by default.
    """
    config = uvicorn.Config(
        app,
        http=functools.partial(  # type: ignore[arg-type]
            GuardedProtocol,
            head_timeout_s=settings.body_timeout_s,
            client_stall_timeout_s=settings.client_stall_timeout_s,
            min_client_bytes_per_s=settings.min_client_bytes_per_s,
            limit=ConnectionLimit(max_connections or settings.max_connections),
        ),
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=CLIENT_IDLE_S,
        timeout_graceful_shutdown=drain_s,  # type: ignore[arg-type]
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=accepting_sockets(listener)))
    try:
        yield Listening(server, task)
    finally:
        server.should_exit = True
        await task
        for connection in list(server.server_state.connections):
            assert isinstance(connection, GuardedProtocol)
            connection.reset_if_paused()  # its client does not read the final error
        # uvicorn cancels requests that did not drain, but does not wait for them
        await asyncio.gather(*server.server_state.tasks, return_exceptions=True)


class _Server(uvicorn.Server):
    """A server that leaves signal handlers to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

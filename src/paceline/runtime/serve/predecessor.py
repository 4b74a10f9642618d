"""A start waits for the process before it on the same ports, if that one is about to end.

A process that ends keeps its ports while clients leave and requests complete, and its engines keep
their memory until they have ended. It puts up a `LeavingNotice` meanwhile. A process without one is
not waited for: its ports stay taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from paceline.foundation.machine.abstract_sockets import connect
from paceline.runtime.gateway import GatewaySettings, PortTaken
from paceline.runtime.gateway.http.listening import HostUnknown, bind
from paceline.runtime.gateway.leaving_notice import Notice, PortAddress, notices_about, ports_of
from paceline.runtime.serve.handover.owner_address import has_owner, listed_hosts

_ENGINES_END_S = 60.0
"""What engines may need to end after the last request: 15 s until they are killed, 30 s for their
descendants (`engine.process.engine_process`), and a margin."""
_RETRY_S = 0.1
"""Time between two attempts to connect to a notice whose queue is full. Chosen empirically."""


class PredecessorStays(Exception):
    """A process that stops has not ended in time. The message names it."""


async def wait_for_predecessors(
    settings: GatewaySettings, on_wait: Callable[[str], None], within_s: float | None = None
) -> None:
    """Return when no process of this user that is about to end has a port of these settings.

    `on_wait` gets one message per process. Waits as long as one with the same time limits may take,
    unless `within_s` is given; then raises `PredecessorStays`.
    """
    if within_s is None:
        within_s = settings.lame_duck_s + settings.drain_timeout_s + _ENGINES_END_S
    reported: set[int] = set()
    pid = 0
    try:
        async with asyncio.timeout(within_s):
            while leaving := _find_leaving(settings):
                with contextlib.ExitStack() as stack:
                    for _, opened in leaving:
                        stack.enter_context(opened or contextlib.nullcontext())
                    notice, connected = leaving[0]
                    pid = notice.pid
                    if pid not in reported:
                        reported.add(pid)
                        on_wait(
                            f"process {pid} is stopping and has not freed port "
                            f"{notice.address.port} yet; waiting for its end, at most "
                            f"{within_s:g} s (Ctrl-C ends the wait)"
                        )
                    if connected is None:
                        await asyncio.sleep(_RETRY_S)
                    else:
                        await _wait_closed(connected)
    except TimeoutError:
        raise PredecessorStays(
            f"process {pid} has been stopping for {within_s:g} s and still completes requests. "
            "Start again when it has ended; a second SIGTERM or Ctrl-C ends it at once, "
            "server.drain_timeout_s limits how long it may take."
        ) from None


def leaving_ports(settings: GatewaySettings) -> list[PortAddress]:
    """Ports of these settings that a process of this user is about to free."""
    found = []
    for notice, connected in _connect(ports_of(settings)):
        if connected is not None:
            connected.close()
            found.append(notice.address)
    return found


def explain_taken_port(settings: GatewaySettings) -> str:
    """What to do about a data port that a running Paceline of this user serves; empty if none
    does."""
    for host in (settings.host, *listed_hosts(settings.port)):
        with contextlib.suppress(HostUnknown):
            wanted, served = (PortAddress.of(one, settings.port) for one in (settings.host, host))
            if served.conflicts_with(wanted) and has_owner(host, settings.port):
                flag = "" if host == settings.host else f"--host {host} "
                return (
                    f" A Paceline of yours has {host}:{settings.port}; {flag}--take-over replaces "
                    "it without losing a request."
                )
    return ""


def _find_leaving(settings: GatewaySettings) -> list[tuple[Notice, socket.socket | None]]:
    """Notices to wait for, with connections that end with them; those come first.

    A notice whose queue is full may be one of another user. It counts while its port is taken.
    """
    found = sorted(_connect(ports_of(settings)), key=lambda one: one[1] is None)
    return [one for one in found if one[1] is not None or _is_taken(settings, one[0].address)]


def _connect(addresses: Sequence[PortAddress]) -> list[tuple[Notice, socket.socket | None]]:
    """The notices with connections that end with them, None where the queue is full; without those
    of other users: anybody can put one up, and would keep this process waiting."""
    found: list[tuple[Notice, socket.socket | None]] = []
    for notice in notices_about(addresses):
        try:
            connected = connect(notice.path, socket.SOCK_STREAM)
        except BlockingIOError:
            found.append((notice, None))
        else:
            if connected is not None:  # else the notice has just been taken down
                found.append((notice, connected))
    return found


def _is_taken(settings: GatewaySettings, address: PortAddress) -> bool:
    """Whether a port of these settings that conflicts with this one cannot be opened."""
    for host, port, setting in settings.ports:
        if PortAddress.of(host, port, setting).conflicts_with(address):
            try:
                bind(host, port, setting, listens=False).close()
            except PortTaken:
                return True
    return False


async def _wait_closed(connected: socket.socket) -> None:
    """The other end sends nothing."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_recv(connected, 1)

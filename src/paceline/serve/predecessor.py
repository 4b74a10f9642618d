"""A start waits for the process before it on the same ports, if that one is about to end.

A process that ends keeps its ports while clients leave and requests complete, and its engines keep
their memory until they have ended. It puts up a `LeavingNotice` meanwhile. A process without one is
not waited for: its ports stay taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Collection, Sequence

from paceline.gateway import GatewaySettings
from paceline.gateway.leaving_notice import (
    Notice,
    PortAddress,
    abstract_names,
    address_of,
    notices_about,
    ports_of,
)
from paceline.serve.handover.connection import is_own_user
from paceline.serve.handover.owner_address import path_of

_ENGINES_END_S = 60.0
"""What engines may need to end after the last request: 15 s until they are killed, 30 s for their
descendants (`engine.process.engine_process`), and a margin."""


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
            while leaving := _connect(ports_of(settings)):
                with contextlib.ExitStack() as stack:
                    notice, connected = leaving[0]
                    for _, opened in leaving:
                        stack.enter_context(opened)
                    pid = notice.pid
                    if pid not in reported:
                        reported.add(pid)
                        on_wait(
                            f"process {pid} is stopping and has not freed port "
                            f"{notice.address.port} yet; waiting for its end, at most "
                            f"{within_s:g} s (Ctrl-C ends the wait)"
                        )
                    await _wait_closed(connected)
    except TimeoutError:
        raise PredecessorStays(
            f"process {pid} has been stopping for {within_s:g} s and still completes requests. "
            "Start again when it has ended; a second SIGTERM or Ctrl-C ends it at once, "
            "server.drain_timeout_s limits how long it may take."
        ) from None


def explain_taken_port(settings: GatewaySettings, names: Collection[str] | None = None) -> str:
    """What to do about a data port that a running Paceline of this user serves; empty if none does.

    `names` are those of the Unix sockets on this machine, read if not given.
    """
    wanted = address_of(settings.host, settings.port)
    found = abstract_names() if names is None else names
    if wanted is None or not wanted.port:
        return ""
    if path_of(settings.host, settings.port)[1:] in found:
        return (
            f" A Paceline of yours has {settings.host}:{settings.port}; --take-over replaces it "
            "without losing a request."
        )
    for host in _hosts_served(found, settings.port):
        other = address_of(host, settings.port)
        if other is not None and other.conflicts_with(wanted):
            return (
                f" A Paceline of yours has {host}:{settings.port}; --host {host} --take-over "
                "replaces it without losing a request."
            )
    return ""


def _connect(addresses: Sequence[PortAddress]) -> list[tuple[Notice, socket.socket]]:
    """Connections that end with the notices, without those of other users: anybody can put one up,
    and would keep this process waiting."""
    found = []
    for notice in notices_about(addresses):
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connected.setblocking(False)
        with contextlib.suppress(OSError):  # the notice has just been taken down
            connected.connect(notice.path)
            if is_own_user(connected):
                found.append((notice, connected))
                continue
        connected.close()
    return found


async def _wait_closed(connected: socket.socket) -> None:
    """The other end sends nothing."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_recv(connected, 1)


def _hosts_served(names: Collection[str], port: int) -> list[str]:
    """The hosts under which processes of this user serve this port."""
    prefix, suffix = f"paceline-{os.getuid()}-", f"-{port}"
    return [
        name.removeprefix(prefix).removesuffix(suffix)
        for name in names
        if name.startswith(prefix) and name.endswith(suffix)
    ]

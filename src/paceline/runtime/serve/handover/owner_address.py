"""`OwnerAddress`: the Unix address that only the owner of the engines is bound to.

The kernel lets one process bind it, and frees it when that process ends, however it ends. So there
are never two owners, whichever messages were lost. A new process connects to it to take over.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from types import TracebackType

from paceline.foundation.machine.abstract_sockets import connect, list_paths, listen

_MAX_WAITING = 4
"""Processes that may wait to be answered. Chosen empirically."""
_CHECK_S = 0.02
"""Time between two attempts to bind the address. Chosen empirically."""


def path_of(host: str, port: int) -> str:
    """The abstract path for the process of this user that serves this data port."""
    return f"\0paceline-{os.getuid()}-{host}-{port}"


def listed_hosts(port: int) -> list[str]:
    """The hosts of all addresses for this data port, which other users may have bound."""
    prefix, _, suffix = path_of("*", port).partition("*")
    return [
        path.removeprefix(prefix).removesuffix(suffix)
        for path in list_paths()
        if path.startswith(prefix) and path.endswith(suffix)
    ]


def connect_to_owner(host: str, port: int, timeout_s: float = 0) -> socket.socket | None:
    """A connection to the process of this user that serves this data port; None if there is none.

    A process that does not answer within this time is not believed to be there: if it is, it has
    the port.
    """
    try:
        return connect(path_of(host, port), socket.SOCK_SEQPACKET, timeout_s)
    except BlockingIOError:
        return None


def has_owner(host: str, port: int) -> bool:
    """Whether a process of this user serves this data port, or is about to."""
    connected = connect_to_owner(host, port)
    if connected is not None:
        connected.close()
    return connected is not None


class OwnerAddress:
    """Free at first; held from `acquire` until `give_up` or the end of the block."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None

    def __enter__(self) -> OwnerAddress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_up()

    @property
    def is_held(self) -> bool:
        """Whether this process is the owner."""
        return self._listener is not None

    def acquire(self, host: str, port: int) -> bool:
        """Bind the address of this data port, unless it is held already; False if another process
        has it."""
        if self._listener is None:
            self._listener = listen(path_of(host, port), socket.SOCK_SEQPACKET, _MAX_WAITING)
        return self._listener is not None

    async def acquire_within(self, host: str, port: int, timeout_s: float) -> bool:
        """The same, if the address becomes free within this time: a process that ends closes its
        sockets one after the other."""
        deadline_s = time.monotonic() + timeout_s
        while not self.acquire(host, port):
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(_CHECK_S)
        return True

    def give_up(self) -> None:
        """Free the address. Processes that wait to be accepted see the end of their connection."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def accept(self) -> socket.socket:
        """The connection of the next process that wants to take over. May raise OSError.

        Cancelled at the moment at which a process connects, it leaves that one to the next call;
        `sock_accept` of the event loop would lose it.
        """
        assert self._listener is not None
        while True:
            try:
                connected, _ = self._listener.accept()
            except BlockingIOError:
                await wait_readable(self._listener.fileno())
            else:
                return connected


async def wait_readable(descriptor: int) -> None:
    """Return when there is something to read, or the end."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)

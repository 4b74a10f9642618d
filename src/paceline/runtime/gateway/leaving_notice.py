"""`LeavingNotice`: a process that ends says which ports it is about to free.

A new process reads the notices, waits for the ends of those processes, and then opens the ports
(`serve.predecessor`). A notice is an abstract Unix address (`abstract_sockets`) that names the
process and a port, so none outlives its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.foundation.machine.abstract_sockets import is_own_user, list_paths, listen
from paceline.runtime.gateway.http.listening import HostUnknown, listen_address
from paceline.runtime.gateway.settings import GatewaySettings

_MAX_WAITING = 128
"""Processes that may wait for one that ends. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class PortAddress:
    """An IP address, in its numeric form, and a port; 0 for one that is chosen when it is
    opened."""

    ip: str
    port: int

    @classmethod
    def of(cls, host: str, port: int, setting: str = "port") -> PortAddress:
        """What a port on this host is bound to. Raises `HostUnknown`, which names the setting."""
        return cls(str(listen_address(host, port, setting)), port)

    def conflicts_with(self, other: PortAddress) -> bool:
        """Whether two processes cannot listen on both: `0.0.0.0` includes every IPv4 address, and
        `::` every address."""
        if self.port != other.port or not self.port:
            return False
        ips = {self.ip, other.ip}
        if len(ips) == 1 or "::" in ips:
            return True
        return "0.0.0.0" in ips and not any(":" in ip for ip in ips)


@dataclass(frozen=True, slots=True)
class Notice:
    """A process of this user, and a port that it is about to free."""

    pid: int
    address: PortAddress
    process: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)
    """Random: processes of several containers, or of one restarted, have the same pid."""

    @property
    def path(self) -> str:
        """The address of its socket: connections to it end with the notice."""
        return f"{_prefix()}{self.pid}.{self.process}-{self.address.port}-{self.address.ip}"


def ports_of(settings: GatewaySettings) -> list[PortAddress]:
    """All ports, without those that are chosen at the start and those of unknown hosts."""
    found = []
    for host, port, _ in settings.ports:
        with contextlib.suppress(HostUnknown):
            found.append(PortAddress.of(host, port))
    return [address for address in found if address.port]


_OWN_PROCESS = secrets.token_hex(8)


class LeavingNotice:
    """Says nothing until `announce`, which needs a running event loop."""

    def __init__(self, addresses: Iterable[PortAddress]) -> None:
        self._addresses = tuple(addresses)
        self._listeners: list[socket.socket] = []
        self._held: list[socket.socket] = []
        """Connections of processes that wait for the end of this one."""

    def announce(self) -> None:
        """Put up one notice for each port; does nothing the second time.

        Without notices new processes find the ports taken, so a failure is no reason to stop.
        """
        if self._listeners:
            return
        for address in self._addresses:
            path = Notice(os.getpid(), address, _OWN_PROCESS).path
            listener = listen(path, socket.SOCK_STREAM, _MAX_WAITING)
            if listener is not None:
                self._listeners.append(listener)
                asyncio.get_running_loop().add_reader(listener.fileno(), self._admit, listener)

    def withdraw(self) -> None:
        """Take the notices down: this process has ended, or another one has its ports."""
        self._stop_admitting()
        for one in (*self._listeners, *self._held):
            one.close()
        self._listeners.clear()
        self._held.clear()

    def _admit(self, listener: socket.socket) -> None:
        """Hold the connection of a process of this user, and drop one of others, who would fill the
        queue."""
        try:
            connected, _ = listener.accept()
        except OSError:  # no descriptors left
            self._stop_admitting()
            return
        if not is_own_user(connected):
            connected.close()
            return
        self._held.append(connected)
        if len(self._held) == _MAX_WAITING:
            self._stop_admitting()

    def _stop_admitting(self) -> None:
        """Any more wait in the queues."""
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener.fileno())


def notices_about(addresses: Iterable[PortAddress]) -> list[Notice]:
    """The notices of other processes about ports that conflict with these."""
    wanted = tuple(addresses)
    return [
        notice
        for notice in map(_read_notice, list_paths())
        if notice is not None
        and notice.process != _OWN_PROCESS
        and any(map(notice.address.conflicts_with, wanted))
    ]


def _read_notice(path: str) -> Notice | None:
    found = re.fullmatch(rf"{_prefix()}(\d+)\.(\w*)-(\d+)-([0-9A-Fa-f.:]+)", path, re.ASCII)
    if found is None:
        return None
    return Notice(int(found[1]), PortAddress(found[4], int(found[3])), found[2])


def _prefix() -> str:
    return f"\0paceline-leaving-{os.getuid()}-"

"""`LeavingNotice`: a process that ends says which ports it is about to free.

A new process reads the notices, waits for the ends of those processes, and then opens the ports
(`serve.predecessor`). A notice is a Unix socket with an abstract address that names the process
and a port. The kernel removes it with the process, however that ends, so no notice is ever stale;
like the ports, it is private to the network namespace.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import selectors
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from paceline.gateway.settings import GatewaySettings
from paceline.peer_credentials import is_own_user

_LISTED = Path("/proc/net/unix")
_MAX_WAITING = 128
"""Processes that may wait for one that ends. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class PortAddress:
    """An IP address, in its numeric form, and a port."""

    ip: str
    port: int

    def conflicts_with(self, other: PortAddress) -> bool:
        """Whether two processes cannot listen on both: `0.0.0.0` includes every IPv4 address, and
        `::` every address."""
        if self.port != other.port:
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
        """The abstract address of its socket: connections to it end with the notice."""
        return f"\0{_prefix()}{self.pid}.{self.process}-{self.address.port}-{self.address.ip}"


def ports_of(settings: GatewaySettings) -> tuple[PortAddress, ...]:
    """All ports, without those that are chosen at the start and those of unknown hosts."""
    found = (address_of(host, port) for host, port, _ in settings.ports)
    return tuple(address for address in found if address is not None and address.port)


def address_of(host: str, port: int) -> PortAddress | None:
    """What a process that listens on this host is bound to; None for an unknown host."""
    with contextlib.suppress(socket.gaierror, UnicodeError):
        kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
        sockaddr = socket.getaddrinfo(host, port, type=kind, flags=flags)[0][4]
        return PortAddress(str(sockaddr[0]), port)
    return None


_OWN_PROCESS = secrets.token_hex(8)


class LeavingNotice:
    """Says nothing until `announce`. The end of the block withdraws the notices."""

    def __init__(self, addresses: Iterable[PortAddress]) -> None:
        self._addresses = tuple(addresses)
        self._listeners: list[socket.socket] = []
        self._end: socket.socket | None = None
        self._admitting: threading.Thread | None = None

    def __enter__(self) -> LeavingNotice:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.withdraw()

    def announce(self) -> None:
        """Put up one notice for each port; does nothing the second time.

        Without notices new processes find the ports taken, so a failure is no reason to stop.
        """
        if self._listeners:
            return
        for address in self._addresses:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listener.bind(Notice(os.getpid(), address, _OWN_PROCESS).path)
                listener.listen(_MAX_WAITING)
            except OSError:
                listener.close()
            else:
                self._listeners.append(listener)
        self._end, ends = socket.socketpair()
        self._admitting = threading.Thread(
            target=_admit, args=(list(self._listeners), ends), daemon=True
        )
        self._admitting.start()

    def withdraw(self) -> None:
        """Take the notices down: this process has ended, or another one has its ports."""
        if self._end is not None and self._admitting is not None:
            self._end.close()
            self._admitting.join()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._end = self._admitting = None


def _admit(listeners: Iterable[socket.socket], ends: socket.socket) -> None:
    """Hold the connections of this user's processes until `ends` does, and drop those of others,
    who would fill the queue."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(ends)
        ready = stack.enter_context(selectors.DefaultSelector())
        for one in (*listeners, ends):
            ready.register(one, selectors.EVENT_READ)
        num_held = 0
        while num_held < _MAX_WAITING:  # any more wait in the queue
            for key, _ in ready.select():
                if key.fileobj is ends:
                    return
                try:
                    connected, _ = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError:  # no descriptors left: they wait in the queue
                    return
                if is_own_user(connected):
                    stack.enter_context(connected)
                    num_held += 1
                else:
                    connected.close()
        ready.unregister(ends)
        ends.recv(1)  # the end


def notices_about(addresses: Iterable[PortAddress]) -> list[Notice]:
    """The notices of other processes about ports that conflict with these."""
    wanted = tuple(addresses)
    return [
        notice
        for notice in _read_notices(abstract_names())
        if notice.process != _OWN_PROCESS and any(map(notice.address.conflicts_with, wanted))
    ]


def abstract_names() -> list[str]:
    """The abstract addresses of all Unix sockets in this network namespace, without the zero byte;
    empty where the system does not list them."""
    try:
        lines = _LISTED.read_text(errors="replace").split("\n")
    except OSError:
        return []
    paths = (fields[7] for line in lines if len(fields := line.split(maxsplit=7)) == 8)
    return sorted({path[1:] for path in paths if path.startswith("@")})


def _read_notices(names: Iterable[str]) -> list[Notice]:
    found = []
    for name in names:
        owner, _, address = name.removeprefix(_prefix()).partition("-")
        pid, _, process = owner.partition(".")
        port, _, ip = address.partition("-")
        if name.startswith(_prefix()) and pid.isdecimal() and port.isdecimal() and _is_ip(ip):
            found.append(Notice(int(pid), PortAddress(ip, int(port)), process))
    return found


def _prefix() -> str:
    return f"paceline-leaving-{os.getuid()}-"


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

"""State of one DNS entry: its addresses, and the last result of resolving its name.

Only `resolve` does I/O. `dns_addresses` decides what an answer changes; `fleet` adds and removes
the replicas.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence

from paceline.runtime.gateway.fleet.status import DnsEntryStatus
from paceline.runtime.gateway.settings.replica_address import url_of_address
from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolve a host and port to IP addresses, in any order. Raises OSError when the name cannot be
resolved; an empty answer is valid."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """All IPv4 and IPv6 addresses of the host, sorted, except those bound to one interface.

    A `Resolve` that uses the system's resolver without blocking the event loop. A resolver that
    hangs occupies one thread of the loop's pool until it gives up.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = {str(address[0]) for _, _, _, _, address in found}
    return sorted(address for address in addresses if "%" not in address)


class DnsEntry:
    """One `ReplicaEntry` with a DNS name. Each address of the name is a replica."""

    def __init__(self, entry: ReplicaEntry, resolve: Resolve) -> None:
        self.entry = entry
        self.num_absences: Mapping[str, int] = {}
        """By known address: the number of consecutive answers that lacked it."""
        self.is_draining = False
        self._resolve = resolve
        self._failure = "not resolved yet"

    async def resolve(self, timeout_s: float) -> Sequence[str]:
        """Resolve the name; empty when that fails or there are no addresses. Does not raise.

        `status` reports the failure.
        """
        host, port = self.entry.host_and_port
        resolved: Sequence[str] = ()
        try:
            async with asyncio.timeout(timeout_s):
                resolved = await self._resolve(host, port)
            self._failure = "" if resolved else "the name has no addresses"
        except TimeoutError:
            self._failure = f"not resolved within {timeout_s:g} s"
        except (OSError, ValueError) as error:  # ValueError: a label that is invalid in DNS
            self._failure = f"cannot be resolved: {error}"
        return resolved

    def replica_name(self, address: str) -> str:
        return f"{self.entry.label}@{address}"

    def replica_url(self, address: str) -> str:
        return url_of_address(address, self.entry.host_and_port[1])

    def status(self) -> DnsEntryStatus:
        return DnsEntryStatus(
            name=self.entry.label,
            dns=self.entry.dns or "",
            addresses=tuple(self.num_absences),
            failure=self._failure,
            is_draining=self.is_draining,
        )

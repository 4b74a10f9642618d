"""Which addresses does a name have just now? The system's resolver, without blocking the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses, in any order. OSError when the name cannot be resolved; an empty
answer is valid."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Every IPv4 and IPv6 address of the host, sorted; those bound to one interface are left out.

    As `Resolve`. A resolver that hangs holds a thread of the loop's pool until it gives up.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = {str(address[0]) for _, _, _, _, address in found}
    return sorted(address for address in addresses if "%" not in address)

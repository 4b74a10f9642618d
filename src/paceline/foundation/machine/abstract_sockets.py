"""Unix sockets with abstract addresses, by which processes of one user find each other.

Such an address is a name without a file. The kernel frees it with its process, however that ends,
and like a port it is private to the network namespace. It has no permissions: any user may bind
one, or connect to one, so both ends ask the kernel who is at the other.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_LISTED = Path("/proc/net/unix")


def listen(path: str, kind: socket.SocketKind, max_waiting: int) -> socket.socket | None:
    """A listening socket that does not block; None if it cannot be opened, as when another process
    has the address. `path` begins with a zero byte."""
    try:
        listener = socket.socket(socket.AF_UNIX, kind)
    except OSError:  # no descriptors left
        return None
    try:
        listener.bind(path)
        listener.listen(max_waiting)
    except OSError:
        listener.close()
        return None
    listener.setblocking(False)
    return listener


def connect(path: str, kind: socket.SocketKind, timeout_s: float = 0) -> socket.socket | None:
    """A connection to the process of this user that has the address; None if there is none.

    Another user may have bound it, and has no part in anything. Without `timeout_s`, raises
    BlockingIOError while the queue of the address is full, also if another user has it.
    """
    connected = socket.socket(socket.AF_UNIX, kind)
    connected.settimeout(timeout_s)
    try:
        connected.connect(path)
        if is_own_user(connected):
            return connected
    except BlockingIOError:
        connected.close()
        raise
    except OSError:
        pass
    connected.close()
    return None


def list_paths() -> list[str]:
    """The abstract addresses in this network namespace; empty where the system does not list
    them."""
    try:
        lines = _LISTED.read_text(errors="replace").split("\n")
    except OSError:
        return []
    names = (fields[7] for line in lines if len(fields := line.split(maxsplit=7)) == 8)
    return sorted({f"\0{name[1:]}" for name in names if name.startswith("@")})


def is_own_user(connected: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    _, uid, _ = _credentials(connected)
    return uid == os.getuid()


def peer_pid(connected: socket.socket) -> int:
    """Id of the process at the other end, also when it has ended."""
    return _credentials(connected)[0]


def _credentials(connected: socket.socket) -> tuple[int, int, int]:
    """Process id, user id and group id of the other end."""
    size = struct.calcsize("3i")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, gid = struct.unpack("3i", credentials)
    return pid, uid, gid

"""Who is at the other end of a Unix socket, as the kernel says.

Abstract addresses have no permissions: any user may bind one, or connect to one.
"""

from __future__ import annotations

import os
import socket
import struct


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

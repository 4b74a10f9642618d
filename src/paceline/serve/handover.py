"""What a running `paceline serve` hands over to a new one, and the messages between the two.

The old process listens on an abstract Unix socket named after its data port. It sends an `Offer`
with file descriptors: the listening sockets of both ports, and one pipe for each engine. The new
process serves with them and then sends `Taken`; the old one stops accepting connections, answers
`Released`, and drains. Until `Taken` arrives, nothing changes for the old process.

Handing over the sockets themselves loses no connection. With `SO_REUSEPORT`, each process would
have its own queue, and Linux resets the connections in the queue of a socket that is closed.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

VERSION = 1
"""Of the messages; processes of different versions do not take over from each other."""
MAX_MESSAGE_BYTES = 128 * 1024
"""Chosen empirically: an engine takes some 2 kB, a replica added at run time 300 bytes."""
MAX_DESCRIPTORS = 128
"""Two listening sockets and up to 64 engines; Linux passes at most 253 at once."""


class OfferedEngine(msgspec.Struct, frozen=True):
    """A ready engine. Its pipe travels beside the message."""

    name: str
    served_name: str
    pid: int
    """Process id of its guard."""
    arguments: tuple[str, ...]
    socket: str
    control_socket: str | None
    serves_undrafted: bool
    log: str
    max_model_len: int | None
    revision: str | None
    num_restarts: int


class Offer(msgspec.Struct, frozen=True):
    """Everything that the new process may continue with."""

    version: int
    pid: int
    engines: tuple[OfferedEngine, ...] = ()
    run_folders: tuple[str, ...] = ()
    """Of the engines' sockets; the process that ends the engines removes them."""
    governor_changes: Mapping[str, Any] = {}
    """See `GovernorChanges.snapshot`."""
    fleet_changes: Mapping[str, Any] = {}
    """See `Fleet.snapshot`."""


class Taken(msgspec.Struct, frozen=True):
    """The new process serves."""

    engines: Mapping[str, int] = {}
    """Process ids of the guards of the engines that it has adopted, by name."""


class Released(msgspec.Struct, frozen=True):
    """The old process accepts no more connections and leaves these engines alone."""

    engines: tuple[str, ...] = ()


def address_of(host: str, port: int) -> str:
    """The abstract address of the process of this user that serves this data port.

    Like the port itself, it is private to the network namespace, and no file is left over.
    """
    return f"\0paceline-{os.getuid()}-{host}-{port}"


def is_own_user(connected: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user."""
    size = struct.calcsize("3i")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())

"""A message as one packet, however long it is.

Linux takes a packet only if it fits into the socket's buffer. A longer message lies in a file in
memory, whose descriptor travels with a short packet, before all others.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import msgspec

from paceline.runtime.serve.handover.messages import HandOverBroken, Message, decode

MAX_PACKET_BYTES = 128 * 1024
MAX_DESCRIPTORS = 128
"""A file, three listening sockets and up to 64 engines; Linux passes at most 253 at once."""

_MAX_INLINE_BYTES = 64 * 1024
"""Fits into the buffer of a socket with Linux's default (208 KiB), which counts more than the
bytes. An engine takes some 2 kB."""
_MAX_FILE_BYTES = 16 * 1024 * 1024
"""Far above 512 replicas added at run time (`MAX_REPLICAS`), at up to 6 kB each with a key."""
_IN_FILE = b"in file"
"""The packet whose message lies in a file. It is no JSON."""


@contextlib.contextmanager
def packed(message: Message) -> Iterator[tuple[bytes, list[int]]]:
    """The packet of a message, and the descriptor of its file if it needs one, which is closed at
    the end of the block. Raises `HandOverBroken` when the message is too long."""
    encoded = msgspec.json.encode(message)
    if len(encoded) <= _MAX_INLINE_BYTES:
        yield encoded, []
        return
    if len(encoded) > _MAX_FILE_BYTES:
        raise HandOverBroken(
            f"a message of {len(encoded)} bytes, where {_MAX_FILE_BYTES} are allowed; remove "
            "replicas that were added at run time"
        )
    with os.fdopen(os.memfd_create("paceline hand-over"), "wb") as file:
        file.write(encoded)
        file.flush()
        yield _IN_FILE, [file.fileno()]


def unpack(data: bytes, descriptors: list[int]) -> Message:
    """The message of a packet. Takes its file, if it has one, out of `descriptors` and closes it.

    Raises `HandOverBroken`; an empty packet is the end.
    """
    if data != _IN_FILE:
        return decode(data)
    if not descriptors:
        raise HandOverBroken("it sent a message without its file")
    with os.fdopen(descriptors.pop(0), "rb") as file:
        file.seek(0)
        return decode(file.read(_MAX_FILE_BYTES))

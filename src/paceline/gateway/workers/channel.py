"""How do messages pass between the head and a worker?

One socket pair for each worker, one line for each message. The end of one process is the end of the
channel for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Generic, TypeVar

import msgspec

from paceline.gateway.workers.messages import LineDecoder, encode_line

In = TypeVar("In")
Out = TypeVar("Out", bound=msgspec.Struct)

_MAX_LINE_BYTES = 16 * 1024 * 1024
"""Chosen by hand: the longest message lists the replicas, some 300 bytes for each."""


class ChannelBroken(Exception):
    """The other side said something that is no message."""


class Channel(Generic[In, Out]):
    """One side."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kinds: Any
    ) -> None:
        """`kinds` is the union of the messages that come in."""
        self._reader = reader
        self._writer = writer
        self._decoder: LineDecoder[In] = LineDecoder(kinds)

    @classmethod
    async def over(cls, connected: socket.socket, kinds: Any) -> Channel[In, Out]:
        """Takes the socket over."""
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=_MAX_LINE_BYTES)
        return cls(reader, writer, kinds)

    async def receive(self) -> In | None:
        """The next message; None when the other side is gone. May raise `ChannelBroken`."""
        try:
            line = await self._reader.readline()
            return self._decoder.decode(line) if line.endswith(b"\n") else None
        except OSError:
            return None
        except ValueError as error:  # no message (msgspec.DecodeError), or a line without end
            raise ChannelBroken(str(error)) from error

    def send(self, message: Out) -> None:
        """Does not suspend or raise; lost when the other side is gone. Whoever sends again and
        again waits for `drain` in between, or leaves it while the channel is backed up."""
        if not self._writer.is_closing():
            self._writer.write(encode_line(message))

    @property
    def is_backed_up(self) -> bool:
        """The other side has not taken what was sent last."""
        return self._writer.transport.get_write_buffer_size() > 0

    async def drain(self) -> None:
        """Until the other side has taken nearly all of it, or is gone."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def finish(self) -> None:
        """Close it once everything that was sent has gone out."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

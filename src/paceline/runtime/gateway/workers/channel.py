"""One side of the connection between the parent process and a worker.

A socket pair for each worker, one line for each message. When one process ends, the other side of
the channel ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Generic, TypeVar

import msgspec

from paceline.runtime.gateway.workers.messages import LineDecoder, encode_line

In = TypeVar("In")
Out = TypeVar("Out", bound=msgspec.Struct)

_MAX_LINE_BYTES = 16 * 1024 * 1024
"""Chosen empirically: the longest message lists the replicas, at some 300 bytes each."""


class ChannelBroken(Exception):
    """The other side sent something that is not a message."""


class Channel(Generic[In, Out]):
    """One side."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, types: Any
    ) -> None:
        """`types` is the union of the incoming messages."""
        self._reader = reader
        self._writer = writer
        self._decoder: LineDecoder[In] = LineDecoder(types)

    @classmethod
    async def over(cls, connected: socket.socket, types: Any) -> Channel[In, Out]:
        """A channel over this socket, which it then owns."""
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=_MAX_LINE_BYTES)
        return cls(reader, writer, types)

    async def receive(self) -> In | None:
        """The next message; None when the other side is gone. May raise `ChannelBroken`."""
        try:
            line = await self._reader.readline()
            return self._decoder.decode(line) if line.endswith(b"\n") else None
        except OSError:
            return None
        except ValueError as error:  # msgspec.DecodeError, or a line longer than the limit
            raise ChannelBroken(str(error)) from error

    def send(self, message: Out) -> None:
        """Queue a message. Does not suspend or raise; it is lost when the other side is gone.

        Callers that send periodically wait for `drain` in between, or skip a message while
        `is_backed_up`.
        """
        if not self._writer.is_closing():
            self._writer.write(encode_line(message))

    @property
    def is_backed_up(self) -> bool:
        """The other side has not read the last message yet."""
        return self._writer.transport.get_write_buffer_size() > 0

    async def drain(self) -> None:
        """Wait until the other side has read nearly everything, or is gone."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    async def finish(self) -> None:
        """Close the channel once everything queued has been sent."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

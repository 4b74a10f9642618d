"""`Connection`: one end of a hand-over, a Unix socket that keeps the bounds of messages."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Sequence

from paceline.runtime.serve.handover.messages import HandOverBroken, Message
from paceline.runtime.serve.handover.owner_address import wait_readable
from paceline.runtime.serve.handover.packets import MAX_PACKET_BYTES, packed, unpack


class Connection:
    """Sends and receives without blocking. Owns the socket."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._reading: asyncio.Task[Message] | None = None
        """The read that is under way. It outlives a time limit: cancelled at the moment at which a
        message arrives, it would lose the message."""

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send one message. Raises `HandOverBroken`."""
        try:
            with packed(message) as (packet, file):
                passed = [*file, *descriptors]
                if passed:
                    socket.send_fds(self._socket, [packet], passed)
                else:
                    self._socket.send(packet)
        except OSError as error:
            raise HandOverBroken(f"it could not be reached: {error}") from None

    async def receive(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `HandOverBroken`, and `TimeoutError` after `timeout_s`."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        reading = self._reading
        await asyncio.wait({reading}, timeout=timeout_s)
        if not reading.done():
            raise TimeoutError
        self._reading = None
        try:
            return reading.result()
        except OSError as error:
            raise HandOverBroken(f"the connection failed: {error}") from None

    def close(self) -> None:
        """End the connection, at once or as soon as the event loop has left the socket."""
        if self._reading is None or self._reading.done():
            self._socket.close()
        else:
            self._reading.add_done_callback(lambda _: self._socket.close())
            self._reading.cancel()

    async def _read(self) -> Message:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, MAX_PACKET_BYTES, 1)
            except BlockingIOError:
                await wait_readable(self._socket.fileno())
            else:
                break
        try:
            return unpack(data, descriptors)
        finally:
            for descriptor in descriptors:  # none belongs to such a message
                os.close(descriptor)


def has_peer_ended(connected: socket.socket) -> bool:
    """Whether the other end is closed."""
    poll = select.poll()
    poll.register(connected, select.POLLRDHUP)  # POLLHUP and POLLERR are always reported
    return bool(poll.poll(0))

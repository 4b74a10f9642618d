"""A client that reads its stream only when the test says so."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

from chaos.authorization import authorization
from chaos.event_stream import EventStreamReader
from chaos.transcript import Transcript

_RECEIVE_BUFFER_BYTES = 4096
_SEGMENT_BYTES = 536
"""The kernel's buffer for sending grows with the segments. With these the gateway has to wait after
some 200 KB that the client has not read, instead of 3 MB."""


class SlowReader:
    """One stream. Call `send`, then `read` once."""

    def __init__(
        self, url: str, path: str, body: dict[str, Any], request_id: str, key: str = ""
    ) -> None:
        """`url` is that of the gateway, without a path; `key` is an API key."""
        self.request_id = request_id
        self._headers = authorization(key)
        self._start_s = 0.0
        self._path = path
        self._body = body
        self._address = url.removeprefix("http://").split(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT_BYTES)
        self._socket.setblocking(False)

    async def send(self) -> None:
        """Send the request; nothing is read."""
        loop, self._start_s = asyncio.get_running_loop(), time.monotonic()
        host, port = self._address
        await loop.sock_connect(self._socket, (host, int(port)))
        body = json.dumps(self._body).encode()
        own = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        head = (
            f"POST {self._path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
            f"content-type: application/json\r\nx-request-id: {self.request_id}\r\n"
            f"{own}content-length: {len(body)}\r\n\r\n"
        )
        await loop.sock_sendall(self._socket, head.encode() + body)

    async def read(self, bytes_per_read: int) -> Transcript:
        """Read the answer to its end, at most this many bytes at a time; closes the connection."""
        loop = asyncio.get_running_loop()
        transcript = Transcript(self.request_id, start_s=self._start_s)
        data = bytearray()
        try:
            while part := await loop.sock_recv(self._socket, bytes_per_read):
                data += part
            head, _, body = bytes(data).partition(b"\r\n\r\n")
            transcript.status = int(head.split(b" ", 2)[1])
            events = EventStreamReader()
            for event in events.feed(_unchunked(body)):
                transcript.note_event(event)
            if events.num_rest_bytes:
                transcript.read_error = f"{events.num_rest_bytes} bytes after the last event"
        except (OSError, ValueError, KeyError) as error:
            transcript.read_error = repr(error)
        finally:
            self._socket.close()
        transcript.end_s = time.monotonic()
        return transcript


def _unchunked(body: bytes) -> bytes:
    """The content of a chunked body. ValueError if it is not complete."""
    content: list[bytes] = []
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        at = end + 2
        if not size:
            return b"".join(content)
        if body[at + size : at + size + 2] != b"\r\n":
            raise ValueError("the body ends inside a chunk")
        content.append(body[at : at + size])
        at += size + 2

"""`Http10Cycle`: one request of HTTP/1.0 and its answer, which has no chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class Http10Cycle(RequestResponseCycle):
    """An answer without a length ends with the connection (RFC 9112, 6.3).

    Every other answer ends the connection too: HTTP/1.0's keep-alive is not offered.
    """

    _has_length = False

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            self._has_length = any(name == b"content-length" for name, _ in message["headers"])
            if not self._has_length:
                self.chunked_encoding = False
        elif message["type"] == "http.response.body" and not self._has_length:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)

"""`Upstreams`: send requests to replicas, over HTTP on a Unix socket or a URL.

aiohttp's exceptions are translated here: callers see `NotSent` (the gateway's own fault),
`Unreachable` (no connection), `Broken` (the answer ended too early) and `TooLarge`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from enum import Enum, auto
from types import TracebackType

import aiohttp

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.hops import HOPS_HEADER
from paceline.runtime.gateway.own_limits import is_own_limit
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import ERROR_BODY_S

_READ_BUFFER_BYTES = 16 * 1024
"""aiohttp reads ahead twice as much, for a client that reads slowly. `REQUEST_BYTES` covers it."""
_KERNEL_BUFFER_BYTES = 32 * 1024
"""Linux takes twice as much. One read takes all of it, so it also bounds what aiohttp holds. At a
round trip of 100 ms, it carries 0.5 MB per second."""
_PART_BYTES = 16 * 1024
"""Longest part that is relayed at once: a stream whose client reads slowly holds three copies."""


_BLANK = b" \t\r\n\xef\xbb\xbf"
"""White space and the bytes of a byte order mark."""

_SENT_BYTES = 64 * 1024
"""Part of a long body that is written at once."""


class NotSent(Exception):
    """The gateway could not open a connection, whatever the replica's state."""


class Unreachable(Exception):
    """There was no connection to the replica: it has not received the request."""


class Broken(Exception):
    """The replica had the request; its answer ended before it was complete, or before it began."""


class TooLarge(Exception):
    """The body is longer than the caller takes."""


class Liveness(Enum):
    """What a replica's health check says."""

    LIVES = auto()
    SILENT = auto()
    """No answer in time: it hangs, has ended while something keeps its socket, or is slow."""
    ENDED = auto()
    """It refuses or resets the connection, or answers a 5xx."""


class UpstreamResponse:
    """An answer that has begun."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        encoding = response.headers.get("content-encoding", "").strip().lower()
        self.is_encoded = encoding not in ("", "identity")
        """The body is compressed, although the request refuses that."""
        _raise_when_cut_off(response)

    async def read_some(self) -> bytes:
        """Up to 16 KiB of what has arrived, at least one byte; empty at the end.

        May raise `Broken`.
        """
        try:
            return await self._response.content.read(_PART_BYTES)
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(_reason(error)) from error

    async def read_all(
        self,
        max_bytes: int,
        reserve: Callable[[int], None] = lambda num_bytes: None,
        *,
        start: bytes = b"",
    ) -> bytes:
        """The whole body. May raise `Broken`, and `TooLarge` when it is longer than `max_bytes`.

        `reserve` is called with the length of each part before it is kept; what it raises ends
        the reading. `start` was read before.
        """
        parts: list[bytes] = []
        num_bytes, part = 0, start
        while part or (part := await self.read_some()):
            num_bytes += len(part)
            if num_bytes > max_bytes:
                raise TooLarge(f"the answer is longer than {max_bytes} bytes")
            reserve(len(part))
            parts.append(part)
            part = b""
        return b"".join(parts)

    async def read_error(self, max_bytes: int) -> bytes:
        """The body of an error: its first `max_bytes`, or what arrives of it within a second,
        also when it breaks off: the status is known."""
        body = b""
        with suppress(Broken, TimeoutError):
            async with asyncio.timeout(ERROR_BODY_S):
                while len(body) < max_bytes and (part := await self.read_some()):
                    body += part
        return body[:max_bytes]

    async def read_contents(self) -> bytes:
        """The first part that is not blank, with the blank bytes before it; empty at the end.

        May raise `Broken`.
        """
        body = b""
        while len(body) < _PART_BYTES and not body.strip(_BLANK):
            part = await self.read_some()
            if not part:
                break
            body += part
        return body

    def close(self) -> None:
        """Close the connection. May be repeated."""
        self._response.close()


class Upstreams:
    """One client session per replica address, kept until the gateway ends.

    An async context manager. Replicas keep their address over restarts, so the sessions are few.
    Every request has a connection of its own: vLLM closes idle ones after 5 s and after some of
    its errors, and a request sent on a closing connection would fail.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s)
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Upstreams:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Close the sessions of other addresses: those of DNS names keep changing."""
        for address in self._sessions.keys() - set(addresses):
            await self._sessions.pop(address).close()

    async def post(
        self, replica: Replica, path: str, body: bytes, request_id: str, hops: str = ""
    ) -> UpstreamResponse:
        """Send a request; returns when the answer begins. `hops` are for a remote replica.

        May raise `NotSent`, `Unreachable` and `Broken`.

        Cancelling it closes the connection, which the engine takes as an abort.
        """
        session, base = self._session(replica)
        headers = {"content-type": "application/json", "x-request-id": request_id}
        headers["content-length"] = str(len(body))  # aiohttp does not know that of an iterator
        if hops and not replica.is_unix:
            headers[HOPS_HEADER] = hops
        if replica.key is not None:
            headers["authorization"] = f"Bearer {replica.key}"
        try:
            response = await session.post(
                base + path,
                data=_in_parts(body) if len(body) > _SENT_BYTES else body,
                headers=headers,
                allow_redirects=False,
                read_bufsize=_READ_BUFFER_BYTES,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            is_own = isinstance(error, aiohttp.ClientConnectorDNSError) or is_own_limit(error)
            raise (NotSent if is_own else Unreachable)(_reason(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Broken(_reason(error)) from error
        return UpstreamResponse(response)

    async def liveness(self, replica: Replica, within_s: float) -> Liveness:
        """What the replica's health check says within this time. Does not raise.

        When the gateway itself cannot open a connection, the replica counts as living.
        """
        session, base = self._session(replica)
        headers = {} if replica.key is None else {"authorization": f"Bearer {replica.key}"}
        path = DIALECTS[replica.dialect].health_path
        try:
            async with asyncio.timeout(within_s):
                response = await session.get(base + path, headers=headers, allow_redirects=False)
        except TimeoutError:
            return Liveness.SILENT
        except (aiohttp.ClientError, OSError) as error:
            is_own = isinstance(error, aiohttp.ClientConnectorDNSError) or is_own_limit(error)
            return Liveness.LIVES if is_own else Liveness.ENDED
        response.close()
        return Liveness.ENDED if response.status >= 500 else Liveness.LIVES

    def _session(self, replica: Replica) -> tuple[aiohttp.ClientSession, str]:
        session = self._sessions.get(replica.address)
        if session is None:
            connector: aiohttp.BaseConnector
            if replica.is_unix:
                connector = aiohttp.UnixConnector(replica.address, limit=0, force_close=True)
            else:
                connector = aiohttp.TCPConnector(
                    limit=0, force_close=True, socket_factory=_bounded_socket
                )
            session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"accept-encoding": "identity"},
                skip_auto_headers={"user-agent"},
            )
            self._sessions[replica.address] = session
        return session, "http://engine" if replica.is_unix else replica.address.rstrip("/")


async def _in_parts(body: bytes) -> AsyncIterator[bytes]:
    """The body, part by part as the replica reads it.

    aiohttp would hand the whole body to the connection, which keeps it until the replica has read
    it, even after the request has ended: for ever if the replica hangs. The parts are copies: a
    view in the connection's buffer would keep the whole body as well.
    """
    for start in range(0, len(body), _SENT_BYTES):
        yield body[start : start + _SENT_BYTES]


def _bounded_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose receive buffer the kernel does not enlarge: it holds what waits for a client
    that reads slowly."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BUFFER_BYTES)
    return opened


def _raise_when_cut_off(response: aiohttp.ClientResponse) -> None:
    """Make a body that is incomplete when its connection closes raise, whatever the reason.

    aiohttp's compiled parser drops the body silently when a later packet has a malformed chunk; the
    reader would then wait forever (seen with 3.14.5).
    """
    body = response.content

    def closed(future: asyncio.Future[None] | None) -> None:
        if future is not None and not future.cancelled():
            future.exception()  # else asyncio logs that it was never retrieved
        if not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the body is malformed"))

    connection = response.connection
    if connection is None or connection.protocol is None:
        return  # released, since the body is complete
    closing = connection.protocol.closed
    if closing is None:
        closed(None)
    else:
        closing.add_done_callback(closed)


def _reason(error: BaseException) -> str:
    """The error for the log: only its type where aiohttp's message may quote the answer."""
    may_quote = isinstance(error, (aiohttp.ClientResponseError, aiohttp.ClientPayloadError))
    if may_quote or not str(error):
        return type(error).__name__
    return f"{type(error).__name__}: {error}"

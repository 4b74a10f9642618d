"""Read a request's body within limits of size, time and structure; check its encoding.

`strict_json` parses the bytes and `requests.validation` checks the fields.
"""

from __future__ import annotations

import asyncio
import codecs
import io
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace

from paceline.runtime.gateway.http.asgi import Receive, Scope, header
from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.http.json_structure import JsonStructure
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import REFUSED_BODY_S

_MARK = codecs.BOM_UTF8


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


@dataclass(frozen=True, slots=True)
class Body:
    """A whole body whose structure is within the limits."""

    data: bytes
    num_keys: int
    """Keys of its JSON; meaningless where it is not valid."""
    decoded_bytes: int = 0
    """Most memory that its decoded form takes."""


def check_headers(scope: Scope, settings: GatewaySettings) -> None:
    """Refuse what the headers alone show to be wrong. Raises `Refusal` (413, 415)."""
    encoding = header(scope, b"content-encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise _unsupported(
            f"Content-Encoding {encoding[:50]!r} is not supported; send the body uncompressed."
        )
    transfer = header(scope, b"transfer-encoding")
    if transfer is not None and transfer.strip().lower() != "chunked":
        raise _unsupported(f"Transfer-Encoding {transfer[:50]!r} is not supported; use chunked.")
    content_type = header(scope, b"content-type") or ""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise _unsupported(f"Content-Type is {content_type[:50]!r}; it must be application/json.")
    length = header(scope, b"content-length")
    if length is not None and int(length) > settings.max_body_bytes:
        raise _too_large(settings.max_body_bytes)


def announced_bytes(scope: Scope) -> int:
    """Length of the body according to the headers; 0 when they do not tell."""
    return int(header(scope, b"content-length") or 0)


async def read_body(
    receive: Receive,
    settings: GatewaySettings,
    num_reserved: int = 0,
    reserve: Callable[[int], None] = lambda num_bytes: None,
    turn: Callable[[int], AbstractAsyncContextManager[None]] = lambda num_bytes: nullcontext(),
) -> Body:
    """The whole body. Raises `Refusal` (413, 408, 400) or `ClientGone`, and what `reserve` raises.

    `reserve` is called with each number of bytes that comes after the first `num_reserved`. Each
    part is counted within a `turn` of its length. A byte order mark of UTF-8 at the start is
    removed: some clients send one, and RFC 8259 allows to ignore it.
    """
    body = io.BytesIO()  # joining 8 MiB at the end would pause every stream for 5 ms
    structure = JsonStructure(settings.json_limits)
    num_bytes = 0
    start: bytes | None = b""
    """What may be the beginning of a byte order mark; None after the start."""
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                num_bytes += len(part)
                if num_bytes > settings.max_body_bytes:
                    raise _too_large(settings.max_body_bytes)
                has_more = message.get("more_body", False)
                if start is not None:
                    part = start + part
                    is_cut = len(part) < len(_MARK) and _MARK.startswith(part)
                    start, part = (part, b"") if is_cut and has_more else (None, part)
                    part = part.removeprefix(_MARK)
                try:
                    if num_bytes > num_reserved:
                        reserve(num_bytes - num_reserved)
                        num_reserved = num_bytes
                    async with turn(len(part)):
                        structure.feed(part)
                except Refusal as refusal:
                    problem = replace(refusal.problem, closes_connection=has_more)
                    raise Refusal(problem, refusal.outcome) from None
                body.write(part)
                if not has_more:
                    return Body(body.getvalue(), structure.num_keys, structure.decoded_bytes)
    except TimeoutError:
        raise Refusal(
            Problem(
                408,
                f"The body was not complete within {settings.body_timeout_s:g} s.",
                "body_timeout",
                closes_connection=True,
            )
        ) from None


async def linger(receive: Receive) -> None:
    """Discard the rest of a refused body for up to a second.

    Closing at once would reset the connection, and the client could lose the answer.
    """
    try:
        async with asyncio.timeout(REFUSED_BODY_S):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        return  # the connection may be closed now


def _too_large(max_body_bytes: int) -> Refusal:
    return Refusal(
        Problem(
            413,
            f"The body is longer than {max_body_bytes} bytes; send less, or have the operator "
            "raise server.max_body_bytes.",
            "body_too_large",
            closes_connection=True,
        )
    )


def _unsupported(message: str) -> Refusal:
    return Refusal(Problem(415, message, "unsupported_media_type", closes_connection=True))

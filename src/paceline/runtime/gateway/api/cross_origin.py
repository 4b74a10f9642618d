"""`CrossOrigin`: let web pages of allowed origins use the data port (CORS).

A browser asks with OPTIONS (a preflight) before it sends JSON or a key to another origin, and shows
the page only answers that name its origin. Without `server.allowed_origins` no page is allowed: on
a port that requires no key, every page that a user opens could use the model and read the answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from paceline.runtime.gateway.http.asgi import Headers, Message, Scope, Send, header
from paceline.runtime.gateway.http.errors import Problem

ANY = "*"
_MAX_AGE_S = 600
"""For how long a browser need not ask again. Chromium keeps at most two hours."""
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,4096}")
_READABLE = b"x-request-id, retry-after, x-should-retry"
"""Headers of answers that a page may read; clients use them for retries."""


class CrossOrigin:
    """The pages that may use this port."""

    def __init__(self, allowed: Collection[str]) -> None:
        """`allowed` are origins as browsers send them, or `*` for all."""
        self._allowed = frozenset(allowed)

    def is_preflight(self, scope: Scope) -> bool:
        """Whether this is a browser's question, and no request of its own."""
        return (
            scope["method"] == "OPTIONS"
            and header(scope, b"origin") is not None
            and header(scope, b"access-control-request-method") is not None
        )

    def allows(self, scope: Scope) -> bool:
        """Whether the request comes from a page that may use this port."""
        origin = header(scope, b"origin")
        return origin is not None and (ANY in self._allowed or origin.lower() in self._allowed)

    def preflight_headers(self, scope: Scope, methods: str) -> Headers:
        """The headers of the answer to an allowed preflight, without those of `with_headers`."""
        headers: Headers = [
            (b"access-control-allow-methods", methods.encode()),
            (b"access-control-max-age", b"%d" % _MAX_AGE_S),
        ]
        names = header(scope, b"access-control-request-headers")
        if names is not None and _HEADER_NAMES.fullmatch(names):
            headers.append((b"access-control-allow-headers", names.encode()))
        if header(scope, b"access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers

    def refusal(self, scope: Scope) -> Problem:
        """The answer to a preflight of a page that may not use this port."""
        origin = (header(scope, b"origin") or "")[:200]
        return Problem(
            403,
            f"Web pages of {origin!r} may not use this server. An operator can list their origin "
            "in server.allowed_origins.",
            "origin_not_allowed",
        )

    def with_headers(self, scope: Scope, send: Send) -> Send:
        """`send`, with the headers that let the page read the answer."""
        origin = ANY if ANY in self._allowed else header(scope, b"origin") or ""
        own: Headers = [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _READABLE),
            (b"vary", b"origin"),
        ]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        return send_with_headers

"""`RequestHead`: what a request asks for, from the parts of its head that the parser returns."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

import httptools

from paceline.runtime.gateway.http.asgi import Headers

_AUTHORITY = re.compile(rb"https?://([^/?#@]+)(?=[/?#]|$)", re.IGNORECASE)


class InvalidHead(ValueError):
    """The head is none that this server may act on; the message completes "The request …: "."""


class RequestHead(NamedTuple):
    """The head of a request of HTTP/1.0 or HTTP/1.1."""

    path: str
    """Decoded."""
    raw_path: bytes
    query: bytes
    headers: Headers
    """With the host of an absolute target, which counts instead of the one in the headers (RFC
    9112, 3.2.2)."""


def read_head(version: str, target: bytes, headers: Headers) -> RequestHead:
    """Raises `InvalidHead`. Header names are in lower case.

    >>> read_head("1.1", b"http://a:80/b%20c?d", [(b"host", b"other")])
    RequestHead(path='/b c', raw_path=b'/b%20c', query=b'd', headers=[(b'host', b'a:80')])
    """
    names = [name for name, _ in headers]
    if version not in ("1.0", "1.1"):  # the parser accepts 0.9 and 2.0 too
        raise InvalidHead(f"HTTP/{version} is not served here; use HTTP/1.1")
    if version == "1.0" and b"transfer-encoding" in names:
        raise InvalidHead("HTTP/1.0 has no Transfer-Encoding; use HTTP/1.1")
    if names.count(b"host") > 1:
        raise InvalidHead("it has more than one Host header; send one")
    try:
        parsed = httptools.parse_url(target)
        raw_path = parsed.path or b"/"
        path = raw_path.decode("ascii")
    except (httptools.HttpParserInvalidURLError, UnicodeDecodeError):
        raise InvalidHead("its target is not a path") from None
    if parsed.schema is not None:
        match = _AUTHORITY.match(target)
        if match is None:
            raise InvalidHead("its target must have http or https, a host, and no user")
        headers = [(b"host", match[1]), *(one for one in headers if one[0] != b"host")]
    if "%" in path:
        path = unquote(path)
    return RequestHead(path, raw_path, parsed.query or b"", headers)


def head_without_offer(method: bytes, target: bytes, version: str, headers: Headers) -> bytes:
    """The bytes of a head without its `Upgrade` headers.

    >>> head_without_offer(b"GET", b"/", "1.1", [(b"host", b"a"), (b"upgrade", b"h2c")])
    b'GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n'
    """
    lines = [b"%s %s HTTP/%s" % (method, target, version.encode())]
    lines += [b"%s: %s" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join(lines) + b"\r\n\r\n"

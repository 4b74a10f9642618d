"""Decide whether the Host header of a request may come from a web page of another site.

In a DNS rebinding attack a page's own name resolves to this machine: the browser takes the port for
the page's server, and its requests carry the page's name. A port that requires a key needs no such
check, because the page has none.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

_HOST = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)(?:%[0-9A-Za-z._~-]+)?\]|(?P<name>[0-9A-Za-z._-]+))(?::[0-9]{0,5})?"
)
"""An IPv6 address in brackets, which may name an interface, or another name; then a port. RFC 3986
allows more names, but a browser sends no other for this machine."""


def is_trusted_host(host: str | None, names: Collection[str]) -> bool:
    """Whether the whole header is localhost, an IP address or one of `names` (in lower case), with
    or without a port.

    >>> is_trusted_host("[::1]:8000", ()), is_trusted_host("[::1].evil.example", ())
    (True, False)
    """
    parts = _HOST.fullmatch(host.strip(" \t")) if host is not None else None
    if parts is None:
        return False
    if parts["ipv6"] is not None:
        return _is_address(ipaddress.IPv6Address, parts["ipv6"])
    name = parts["name"].lower()
    return name == "localhost" or name in names or _is_address(ipaddress.IPv4Address, name)


def _is_address(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True

"""Decide whether the Host header of a request may come from a web page of another site.

In a DNS rebinding attack a page's own name resolves to this machine: the browser takes the port for
the page's server, and its requests carry the page's name. A port that requires a key needs no such
check, because the page has none.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection


def is_trusted_host(host: str | None, names: Collection[str]) -> bool:
    """Whether the header names localhost, an IP address or one of `names` (in lower case).

    >>> is_trusted_host("[::1]:8000", ()), is_trusted_host("evil.example:8000", ())
    (True, False)
    """
    if host is None:
        return False
    name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost" or name.lower() in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

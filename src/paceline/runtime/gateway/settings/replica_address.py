"""Check the address of a replica, and bring it into its one canonical form.

Stricter than `urllib.parse`, which drops line ends and accepts blanks, NUL and port 0: what is
stored is what was given, and could be the address of a server. A message quotes nothing but a valid
scheme and host: the rest may be a user, a password, a path or a query, also in other letters
(`user:pass%40host`).
"""

from __future__ import annotations

import ipaddress
import re

_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?P<port>:.*)?",
    re.DOTALL,
)
_TAIL = re.compile(r"[/?#\\]")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_\-]{0,61}[A-Za-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
"""A last label of this form makes resolvers read the whole host as an IPv4 address, in any of the
forms of inet_aton."""
_DIGITS = re.compile(r"[0-9]{1,20}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_MAX_HOST_CHARS = 253
"""Of a DNS name."""
_NOT_SHOWN = "not shown, as it may hold a password"
_EXAMPLE = "http://host:port or https://host:port"


def canonical_url(url: str) -> str:
    """The URL with its host in lower case, without a default port or a slash at the end.

    Raises `ValueError`; the message begins with "url".

    >>> canonical_url("HTTP://GPU-1:80/")
    'http://gpu-1'
    """
    if "@" in url:
        raise ValueError("url contains a user or a password; set an API key with key_file")
    before, separator, rest = url.partition("://")
    end = _TAIL.search(rest)
    tail = rest[end.start() :] if end else ""
    found = _URL.fullmatch(f"{before}{separator}{rest[: end.start()] if end else rest}")
    scheme = "" if found is None else found["scheme"].lower()
    if found is None or scheme not in _DEFAULT_PORTS or not found["host"]:
        raise ValueError(f"url is {_NOT_SHOWN}; it must be {_EXAMPLE}")
    host = _canonical_host(found["host"])
    if host is None:
        raise ValueError(f"url is {_NOT_SHOWN}; its host is {_HOST_RULE}")
    port_text = (found["port"] or "")[1:]
    is_number = _DIGITS.fullmatch(port_text) is not None
    # What is no port may be a password, and the host a user.
    shown = f"{scheme}://{host}" if is_number or found["port"] is None else _NOT_SHOWN
    if tail not in ("", "/"):
        raise ValueError(
            f"url is {shown}; leave out everything after the host and port (the gateway adds /v1/…)"
        )
    if found["port"] is None:
        return f"{scheme}://{host}"
    port = _port(port_text)
    if port is None:
        raise ValueError(f"url is {shown}; the port must be 1 to 65535")
    return f"{scheme}://{host}" if port == _DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"


def canonical_dns(text: str) -> str:
    """host:port of a DNS name, with the host in lower case.

    Raises `ValueError`; the message begins with "dns".
    """
    host, colon, digits = text.rpartition(":")
    canonical = None if not colon or host.startswith("[") else _canonical_host(host)
    if canonical is None or not _DIGITS.fullmatch(digits):
        raise ValueError(
            f"dns is {_NOT_SHOWN}; it must be host:port, for example llm.svc:8000; the host is "
            f"{_HOST_RULE}"
        )
    port = _port(digits)
    if port is None:
        raise ValueError(f"dns is {canonical}; the port must be 1 to 65535")
    return f"{canonical}:{port}"


def url_of_address(address: str, port: int) -> str:
    """URL of one IP address of a DNS name."""
    host = f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    return canonical_url(f"http://{host}:{port}")


_HOST_RULE = (
    "not the name or the IP address of a server: use labels of 1 to 63 letters, digits, - and _ "
    "(a name in other letters in its xn-- form), an IPv4 address in four parts, or an IPv6 "
    "address in brackets without a zone"
)


def _canonical_host(host: str) -> str | None:
    """None for what can be no host."""
    try:
        if host.startswith("["):
            address = ipaddress.IPv6Address(host[1:-1])
            return f"[{address.compressed}]" if address.scope_id is None else None
        labels = host.removesuffix(".").split(".")
        if _NUMERIC.fullmatch(labels[-1]):
            return str(ipaddress.IPv4Address(host))
    except ValueError:
        return None
    is_name = len(host) <= _MAX_HOST_CHARS and all(map(_LABEL.fullmatch, labels))
    return host.lower() if is_name else None


def _port(digits: str) -> int | None:
    return int(digits) if _PORT.fullmatch(digits) and int(digits) <= 65_535 else None

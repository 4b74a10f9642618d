"""The addresses of a `paceline serve` without settings, for defaults of options and messages."""

from __future__ import annotations

from urllib.parse import urlsplit

DATA_PORT, ADMIN_PORT = 8000, 8001
"""Of `paceline serve`, unless its settings say otherwise."""
DEFAULT_URL = f"http://127.0.0.1:{DATA_PORT}"
DEFAULT_ADMIN_URL = f"http://127.0.0.1:{ADMIN_PORT}"


def at_port(url: str, port: int) -> str:
    """The same host at another port, for a message; of a URL that is none, this machine's.

    >>> at_port("http://10.0.0.5:8000/v1", ADMIN_PORT), at_port("http://[::1", ADMIN_PORT)
    ('http://10.0.0.5:8001', 'http://127.0.0.1:8001')
    >>> at_port("10.0.0.5:8000", ADMIN_PORT)
    'http://10.0.0.5:8001'
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
    except ValueError:
        return at_port(DEFAULT_URL, port)
    host = parts.hostname or "127.0.0.1"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"

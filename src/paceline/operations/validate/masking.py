"""Keep keys out of the reasons of a report: a server may repeat a key in its answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN = "***"
_MIN_CHARS = 4
"""A shorter text is no secret, and replacing it would change unrelated words."""
_MIN_CUT_CHARS = 8
"""Of a key that the end of a shortened answer cuts."""


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets and without beginnings of 8 or more of their characters.

    >>> hide_secrets("status 400: bad key sk-1234567890", ["sk-1234567890"])
    'status 400: bad key ***'
    >>> hide_secrets("status 400: bad key sk-123456", ["sk-1234567890"])
    'status 400: bad key ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < _MIN_CHARS:
            continue
        for length in range(len(secret), min(len(secret), _MIN_CUT_CHARS) - 1, -1):
            text = text.replace(secret[:length], _SHOWN)
    return text

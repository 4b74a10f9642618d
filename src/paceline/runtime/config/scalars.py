"""Checks of single values that pydantic would convert: what is probably a mistake is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic_core import PydanticCustomError

_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
)
_ORIGIN = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])"
    r"(:(?P<port>[1-9][0-9]{0,4}))?"
)
_MAX_PORT = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_scalar(annotation: Any, value: Any) -> Any:
    """The value as it is. Raises `PydanticCustomError`, without the value, for one that the type of
    its field would hide.

    pydantic takes `true` for the number 1, "010" for 10, "8_0" for 80, digits of any script for
    decimal ones, and drops repeated members of a set.
    """
    kinds = frozenset(_kinds(annotation))
    is_number = bool(kinds & {int, float}) and bool not in kinds
    if is_number and isinstance(value, bool):
        raise _mistake("it must be a number")
    if is_number and isinstance(value, str) and _is_odd_number(value.strip(" ")):
        raise _mistake("write the number in decimal, without leading zeros or underscores")
    if isinstance(value, str) and _CONTROL.search(value):
        raise _mistake("it must not contain control characters")
    is_set = frozenset in kinds and isinstance(value, list | tuple)
    if is_set and len(set(map(str, value))) < len(value):
        raise _mistake("it lists one member twice; list it once")
    return value


def _is_odd_number(text: str) -> bool:
    """Whether a text has digits and is not a number as everybody writes it."""
    return any(map(str.isdigit, text)) and not _NUMBER.fullmatch(text)


def _mistake(message: str) -> PydanticCustomError:
    return PydanticCustomError("mistake", message)


def check_hosts(hosts: frozenset[str]) -> frozenset[str]:
    """The host names as they are. Raises ValueError for what no Host header could equal."""
    for host in sorted(hosts):
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"it lists {host[:100]!r}; list names such as llm.example.com, without a port, a "
                "scheme or wildcards"
            )
    return hosts


def check_origins(origins: frozenset[str]) -> frozenset[str]:
    """The origins as browsers send them. Raises ValueError for what no browser sends.

    >>> sorted(check_origins(frozenset({"HTTPS://Chat.example:443", "http://localhost:3000"})))
    ['http://localhost:3000', 'https://chat.example']
    """
    return frozenset(map(_canonical_origin, origins))


def _canonical_origin(origin: str) -> str:
    match = _ORIGIN.fullmatch(origin)
    if origin == "*":
        return origin
    if match is None or int(match["port"] or 0) > _MAX_PORT:
        raise ValueError(
            f"it lists {origin[:100]!r}; list origins such as https://chat.example or "
            "http://localhost:3000 (scheme, host and port, with nothing after them), or * for all"
        )
    scheme, host, port = match["scheme"].lower(), match["host"].lower(), match["port"]
    is_default = port is None or int(port) == _DEFAULT_PORTS.get(scheme)
    return f"{scheme}://{host}" if is_default else f"{scheme}://{host}:{port}"


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that a field accepts, without what they contain."""
    origin = getattr(annotation, "__origin__", None)
    if origin in (frozenset, tuple, dict):
        yield origin
        return
    yield origin if isinstance(origin, type) else annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)

"""Checks of single values that pydantic would convert: what is probably a mistake is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
)


def check_scalar(annotation: Any, value: Any) -> Any:
    """The value as it is. Raises ValueError for one that the type of its field would hide.

    pydantic takes `true` for the number 1, "010" for 10, and drops repeated members of a set.
    """
    kinds = frozenset(_kinds(annotation))
    is_number = bool(kinds & {int, float}) and bool not in kinds
    if is_number and isinstance(value, bool):
        raise ValueError(f"it is {str(value).lower()}; it must be a number")
    if is_number and isinstance(value, str) and _LEADING_ZERO.fullmatch(value.strip()):
        raise ValueError(f"it is {value!r}; write the number in decimal, without leading zeros")
    if isinstance(value, str) and _CONTROL.search(value):
        raise ValueError(f"it is {value[:100]!r}; it must not contain control characters")
    if frozenset in kinds and isinstance(value, list | tuple):
        repeated = [one for one, count in Counter(map(str, value)).items() if count > 1]
        if repeated:
            raise ValueError(f"it lists {repeated[0][:100]!r} twice; list it once")
    return value


def check_hosts(hosts: frozenset[str]) -> frozenset[str]:
    """The host names as they are. Raises ValueError for what no Host header could equal."""
    for host in sorted(hosts):
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"it lists {host[:100]!r}; list names such as llm.example.com, without a port, a "
                "scheme or wildcards"
            )
    return hosts


def _kinds(annotation: Any) -> Iterator[Any]:
    """The types that a field accepts, without what they contain."""
    origin = getattr(annotation, "__origin__", None)
    if origin in (frozenset, tuple, dict):
        yield origin
        return
    yield origin if isinstance(origin, type) else annotation
    for inner in get_args(annotation):
        yield from _kinds(inner)

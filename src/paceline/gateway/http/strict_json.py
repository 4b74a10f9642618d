"""Parse a body that must be one JSON object, and refuse what parsers read differently.

msgspec refuses NaN, Infinity, lone surrogates, bytes that are not UTF-8, byte order marks (`body`
removes one), and anything after the value. This module also refuses repeated keys (parsers use
either the first or the last) and deep nesting. `json_structure` bounds the number of keys and
values before a body is parsed.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from paceline.gateway.http.errors import Refusal, invalid
from paceline.gateway.http.json_structure import JsonStructure, too_deep
from paceline.gateway.settings import JsonLimits

_decode = msgspec.json.Decoder().decode
_HALF_PAIR = re.compile(
    rb"(?<!\\)(?:\\\\)*(?P<half>"  # the backslash of the escape is not escaped itself
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<bytes>\xed[\xa0-\xbf])"
)
"""A surrogate without its other half: as an escape, or in the bytes of UTF-8."""
_CONTAINERS = frozenset({dict, list})


def parse_object(body: bytes, limits: JsonLimits, num_keys: int | None = None) -> dict[str, Any]:
    """The body as a dict; raises `Refusal` (400) when it breaks a rule.

    `num_keys` is the count of a `JsonStructure` that was fed this body within `limits`; None to
    count here.
    """
    if num_keys is None:
        structure = JsonStructure(limits)
        structure.feed(body)
        num_keys = structure.num_keys
    try:
        parsed = _decode(body)
    except UnicodeDecodeError:
        raise _malformed(_explain(body) or "it is not UTF-8") from None
    except RecursionError:
        raise too_deep(limits.max_depth) from None
    except msgspec.DecodeError as error:
        if not body.strip():
            raise _malformed("it is empty") from None
        reason = _explain(body) or str(error).removeprefix("JSON is malformed: ")
        raise _malformed(reason) from None
    if not isinstance(parsed, dict):
        raise _malformed("it must be an object, {…}")
    if num_keys != _count_keys(parsed, limits.max_depth):
        _refuse_repeated_keys(body, limits.max_depth)
    return parsed


def _count_keys(parsed: dict[str, Any], max_depth: int) -> int:
    """Keys over all levels; those of a value that a repeated key replaced are missing."""
    num_keys = 0
    level: list[Any] = [parsed]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise too_deep(max_depth)
        below: list[Any] = []
        for node in level:
            children = node
            if isinstance(node, dict):
                num_keys += len(node)
                children = node.values()
            if not _CONTAINERS.isdisjoint(map(type, children)):
                below.extend(child for child in children if type(child) in _CONTAINERS)
        level = below
    return num_keys


def _refuse_repeated_keys(body: bytes, max_depth: int) -> None:
    """Name the first repeated key of a body that has one."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise invalid(
                    f"The key {key[:100]!r} is repeated; give it once.", code="repeated_key"
                )
            seen.add(key)

    try:
        json.loads(body, object_pairs_hook=check)
    except RecursionError:  # in the value of a repeated key, which the first parser dropped
        raise too_deep(max_depth) from None


def _explain(body: bytes) -> str | None:
    """What is wrong with the text of a body that is not JSON; None if its structure is."""
    encoding = json.detect_encoding(body)
    if encoding == "utf-8-sig":
        return "it begins with two byte order marks; send one or none"
    if encoding != "utf-8":
        return f"it is {encoding[:6].upper()}; encode it as UTF-8"
    half = _HALF_PAIR.search(body)
    if half is None:
        return None
    at = half.start("half") if half["half"] else half.start("bytes")
    shown = f" ({half['half'].decode()})" if half["half"] else ""
    return (
        f"byte {at} begins half of a surrogate pair{shown}, such as half an emoji; cut text "
        "between characters, not between UTF-16 units"
    )


def _malformed(reason: str) -> Refusal:
    return invalid(f"The body is not valid JSON: {reason}.", code="invalid_json")

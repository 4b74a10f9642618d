"""Parse a body that must be one JSON object, and refuse what parsers read differently.

msgspec refuses NaN, Infinity, lone surrogates, bytes that are not UTF-8, and anything after the
value. This module also refuses repeated keys (parsers use either the first or the last), deep
nesting and very many keys.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from paceline.gateway.http.errors import Refusal, invalid

_decode = msgspec.json.Decoder().decode


def parse_object(body: bytes, max_depth: int, max_keys: int) -> dict[str, Any]:
    """The body as a dict; raises `Refusal` (400) when it breaks a rule."""
    try:
        parsed = _decode(body)
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    except msgspec.DecodeError as error:
        if not body.strip():
            raise _malformed("it is empty") from None
        raise _malformed(str(error).removeprefix("JSON is malformed: ")) from None
    if not isinstance(parsed, dict):
        raise _malformed("it must be an object, {…}")
    num_keys = _count_keys(parsed, max_depth, max_keys)
    # Every key has a colon after it. If there are as many colons as keys, no key is repeated and no
    # string holds a colon. Otherwise parse again in a way that shows repeated keys.
    if body.count(b":") != num_keys:
        _refuse_repeated_keys(body, max_depth, max_keys)
    return parsed


def _count_keys(parsed: dict[str, Any], max_depth: int, max_keys: int) -> int:
    num_keys = 0
    level: list[Any] = [parsed]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise _too_deep(max_depth)
        below: list[Any] = []
        for node in level:
            children = node
            if isinstance(node, dict):
                num_keys += len(node)
                children = node.values()
            below.extend(child for child in children if type(child) in (dict, list))
        if num_keys > max_keys:
            raise _too_many_keys(max_keys)
        level = below
    return num_keys


def _refuse_repeated_keys(body: bytes, max_depth: int, max_keys: int) -> None:
    """Refuse repeated keys in one pass; they count towards `max_keys` too."""
    num_keys = 0

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal num_keys
        num_keys += len(pairs)
        if num_keys > max_keys:
            raise _too_many_keys(max_keys)
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
        raise _too_deep(max_depth) from None


def _malformed(reason: str) -> Refusal:
    return invalid(f"The body is not valid JSON: {reason}.", code="invalid_json")


def _too_many_keys(max_keys: int) -> Refusal:
    return invalid(f"The body has more than {max_keys} keys; send fewer.", code="too_many_keys")


def _too_deep(max_depth: int) -> Refusal:
    return invalid(
        f"The body is nested too deeply; at most {max_depth} levels are allowed.",
        code="too_deeply_nested",
    )

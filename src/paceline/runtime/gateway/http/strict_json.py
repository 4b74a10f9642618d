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

from paceline.runtime.gateway.http.errors import Refusal, invalid
from paceline.runtime.gateway.http.json_structure import JsonStructure, too_deep
from paceline.runtime.gateway.settings import JsonLimits

_decode = msgspec.json.Decoder().decode
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SECOND_HALF = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF_IN_UTF8 = re.compile(rb"\xed[\xa0-\xbf]")
_NUM_ESCAPE_BYTES = 6
_HALF_REPORTED = re.compile(r"utf-16 surrogate pair \(byte ([0-9]+)\)$")
"""msgspec's words, with the offset at which it stopped: the end of the escape."""
_NUM_TAIL_BYTES = 64
"""msgspec reports a first half in the last 11 bytes as truncated input. The rest is for the
backslashes before it: an even number means that its own is escaped."""
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
    except UnicodeDecodeError as error:
        raise _malformed(_explain(body, error) or "it is not UTF-8") from None
    except RecursionError:
        raise too_deep(limits.max_depth) from None
    except msgspec.DecodeError as error:
        if not body.strip():
            raise _malformed("it is empty") from None
        reason = _explain(body, error) or str(error).removeprefix("JSON is malformed: ")
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


def _explain(body: bytes, error: ValueError | msgspec.DecodeError) -> str | None:
    """What is wrong with the text of a body that is not JSON; None if its structure is."""
    encoding = json.detect_encoding(body)
    if encoding == "utf-8-sig":
        return "it begins with two byte order marks; send one or none"
    if encoding != "utf-8":
        return f"it is {encoding[:6].upper()}; encode it as UTF-8"
    at = _half_pair(body, error)
    if at is None:
        return None
    escape = body[at : at + _NUM_ESCAPE_BYTES]
    shown = f" ({escape.decode()})" if escape.startswith(b"\\") else ""
    return (
        f"byte {at} begins half of a surrogate pair{shown}, such as half an emoji; cut text "
        "between characters, not between UTF-16 units"
    )


def _half_pair(body: bytes, error: ValueError | msgspec.DecodeError) -> int | None:
    """Where a surrogate without its other half begins, as an escape or in the bytes of UTF-8; None
    if the parser stopped for another reason.

    It looks only where the parser stopped: a regular expression over 7 MiB takes half a second, in
    which no stream of this process continues.
    """
    if isinstance(error, UnicodeDecodeError):  # its offset is that in one string
        try:
            body.decode()
        except UnicodeDecodeError as first:
            return first.start if _HALF_IN_UTF8.match(body, first.start) else None
        return None
    reported = _HALF_REPORTED.search(str(error))
    if reported:
        at = int(reported[1]) - _NUM_ESCAPE_BYTES
        if "unexpected end" not in str(error) and not _SECOND_HALF.match(body, at):
            at -= _NUM_ESCAPE_BYTES  # a first half, and then an escape that is no second one
        return at if _FIRST_HALF.match(body, at) or _SECOND_HALF.match(body, at) else None
    tail = body[-_NUM_TAIL_BYTES:]
    at = tail.rfind(b"\\u")
    half = _FIRST_HALF.match(tail, at) if at >= 0 else None
    if half is None or "truncated" not in str(error):
        return None
    num_backslashes = at - len(tail[:at].rstrip(b"\\"))
    return None if num_backslashes % 2 else len(body) - len(tail) + at


def _malformed(reason: str) -> Refusal:
    return invalid(f"The body is not valid JSON: {reason}.", code="invalid_json")

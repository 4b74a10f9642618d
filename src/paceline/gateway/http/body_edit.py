"""How does the gateway add fields of its own to a body that a client wrote?

By inserting bytes: what the client wrote is not decoded and encoded again, so its numbers, its
escapes and its spacing reach the engine as they came, and a long prompt costs one copy of memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def with_fields(body: bytes, names: Collection[str], fields: Mapping[str, object]) -> bytes:
    """The body with these top-level fields set, whether or not it had them.

    `body` is one JSON object that `strict_json` let pass; `names` are *all* its top-level keys,
    those with null or false included: a key that is missing here would stand twice in the result,
    and parsers differ in which one they take.

    >>> with_fields(b' {"a": 1.50}', {"a"}, {"cache_salt": "s"})
    b' {"cache_salt":"s","a": 1.50}'
    >>> with_fields(b'{"a": 1.50, "b": [ ]}', {"a", "b"}, {"a": None})
    b'{"a":null,"b":[ ]}'
    """
    if not fields:
        return body
    if any(name in names for name in fields):
        members: dict[str, object] = {**_decode_raw(body), **fields}
        return msgspec.json.encode(members)
    inserted = msgspec.json.encode(fields)[1:-1]
    after_brace = body.index(b"{") + 1  # nothing but blanks can stand before it
    separator = b"," if names else b""
    return b"".join((body[:after_brace], inserted, separator, memoryview(body)[after_brace:]))

"""Set and remove fields of a client's JSON body; added ones are inserted as bytes.

The client's numbers, escapes and spacing reach the engine unchanged, and a long prompt costs one
copy of memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def with_fields(
    body: bytes,
    names: Collection[str],
    fields: Mapping[str, object],
    without: Collection[str] = (),
) -> bytes:
    """The body with these top-level fields set, whether or not it had them, and `without` others.

    `body` is one JSON object that `strict_json` accepted. `names` are *all* its top-level keys,
    including those with null or false: a key missing from `names` would be repeated in the result,
    and parsers differ in which of two they use.

    >>> with_fields(b' {"a": 1.50}', {"a"}, {"cache_salt": "s"})
    b' {"cache_salt":"s","a": 1.50}'
    >>> with_fields(b'{"a": 1.50, "b": [ ]}', {"a", "b"}, {"a": None})
    b'{"a":null,"b":[ ]}'
    >>> with_fields(b'{"a": 1.50, "b": [ ]}', {"a", "b"}, {}, without=["b"])
    b'{"a":1.50}'
    """
    removed = [name for name in without if name in names]
    if not fields and not removed:
        return body
    if removed or any(name in names for name in fields):
        kept: dict[str, object] = dict(_decode_raw(body))
        for name in removed:
            del kept[name]
        return msgspec.json.encode({**kept, **fields})
    inserted = msgspec.json.encode(fields)[1:-1]
    after_brace = body.index(b"{") + 1  # only blanks can precede it
    separator = b"," if names else b""
    return b"".join((body[:after_brace], inserted, separator, memoryview(body)[after_brace:]))

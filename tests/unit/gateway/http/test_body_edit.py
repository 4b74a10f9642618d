"""A body with added fields is what the client wrote, plus these fields."""

from __future__ import annotations

import doctest
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.http import body_edit
from paceline.runtime.gateway.http.body_edit import with_fields
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.settings import JsonLimits

_NAMES = st.one_of(
    st.sampled_from(["cache_salt", "return_token_ids", "a", ""]), st.text(max_size=9)
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)
_BLANKS = st.text(" \t\r\n", max_size=4)


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """Valid JSON objects as clients may write them: spacing, escapes in keys, UTF-8 or ASCII."""
    members = draw(st.dictionaries(_NAMES, _VALUES, max_size=6))
    spaced = json.dumps(
        members,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 0, 3, "\t"])),
        separators=draw(st.sampled_from([(",", ":"), (" , ", " : "), (",\n", ":\t")])),
    )
    if draw(st.booleans()):
        spaced = spaced.replace('"cache_salt"', '"cach\\u0065_salt"')
    return (draw(_BLANKS) + spaced + draw(_BLANKS)).encode()


@settings(deadline=None)
@given(
    body=_bodies(),
    fields=st.dictionaries(
        st.sampled_from(["cache_salt", "return_token_ids", "a", "é", '"']), _VALUES, max_size=3
    ),
)
def test_the_result_is_the_object_with_the_fields_set(body: bytes, fields: dict[str, Any]) -> None:
    parsed = parse_object(body, JsonLimits())
    edited = with_fields(body, parsed.keys(), fields)
    assert json.loads(edited) == {**json.loads(body), **fields}
    # No key is repeated: the strict parser would refuse it.
    assert parse_object(edited, JsonLimits()).keys() == parsed.keys() | fields.keys()


@settings(deadline=None)
@given(body=_bodies())
def test_what_the_client_wrote_stays_byte_for_byte(body: bytes) -> None:
    names = parse_object(body, JsonLimits()).keys()
    edited = with_fields(body, names, {"paceline_new": [1, "x"]})
    at = edited.index(b'"paceline_new":[1,"x"]')
    assert edited.replace(b'"paceline_new":[1,"x"]' + (b"," if names else b""), b"", 1) == body
    assert not body[:at].strip(b" \t\r\n{")


@pytest.mark.parametrize(
    ("body", "fields", "expected"),
    [
        (b"{}", {"x": 1}, b'{"x":1}'),
        (b" \n{ } ", {"x": 1}, b' \n{"x":1 } '),
        (b'{"a":1}', {}, b'{"a":1}'),
        (b'{"a":1}', {"x": True, "y": "\n"}, b'{"x":true,"y":"\\n","a":1}'),
        (b'{ "x": null, "a": 1e2}', {"x": True}, b'{"x":true,"a":1e2}'),
        (b'{"a": 10000000000000000000000001, "x": 0}', {"x": 1},
         b'{"a":10000000000000000000000001,"x":1}'),
        (b'{"\\u0078": 1}', {"x": 2}, b'{"x":2}'),
        (b'{"a": "\\u00e9\\/", "x": 1}', {"x": 2}, b'{"a":"\\u00e9\\/","x":2}'),
    ],
)  # fmt: skip
def test_known_bodies(body: bytes, fields: dict[str, object], expected: bytes) -> None:
    assert with_fields(body, parse_object(body, JsonLimits()).keys(), fields) == expected


def test_the_examples_run() -> None:
    assert doctest.testmod(body_edit).failed == 0

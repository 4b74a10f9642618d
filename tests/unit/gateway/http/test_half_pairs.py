"""Text with half of a surrogate pair is refused with that reason; whole pairs pass."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.settings import JsonLimits


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (rb'{"a": "cut \ud83d"}', 11),
        (rb'{"a": "\ude00 rest"}', 7),
        (rb'{"a": "\uD83D\uD83D\uDE00"}', 7),
        (rb'{"a": "\ud83d\n"}', 7),
        (rb'{"a": "\ud83dx"}', 7),
        (rb'{"\udbff": 1}', 2),
        (rb'{"a": [{"b": ["\\\udc00"]}]}', 17),
        (rb'{"a": "\ud83d\u0041 and a longer rest"}', 7),
        (rb'{"a": "\ud83d and a longer rest"}', 7),
        (rb'{"a": "\\ud83d\ude00 rest"}', 14),
        (rb'{"a": "\ud83d\ude00\ude00"}', 19),
        (rb'{"a": "\ud83d\q"}', 7),
        (b'{"a": "\\n\xed\x95\x9c\xed\xa0\xbd"}', 12),
        (b'{"a": "\xed\xa0\xbd"}', 7),
        (b'{"a": "\xed\xa0\xbd\xed\xb8\x80"}', 7),
    ],
)
def test_half_a_pair_is_the_stated_reason(body: bytes, at: int) -> None:
    with pytest.raises(Refusal, match=f"byte {at} begins half of a surrogate pair"):
        parse_object(body, JsonLimits())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb'{"a": "\ud83d\ude00"}', "\U0001f600"),
        (rb'{"a": "\\ud83d"}', r"\ud83d"),
        (rb'{"a": "\\\\ude00\ud7ff\ue000"}', "\\\\ude00\ud7ff\ue000"),
        ('{"a": "\ud7ff\ue000"}'.encode(), "\ud7ff\ue000"),
    ],
)
def test_whole_pairs_and_their_neighbours_pass(body: bytes, text: str) -> None:
    assert parse_object(body, JsonLimits()) == {"a": text}


def test_another_fault_keeps_its_own_reason() -> None:
    with pytest.raises(Refusal, match="truncated"):
        parse_object(rb'{"a": "\ud83d\ude00"', JsonLimits())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (rb'{"a": x, "b": "\ud83d and a longer rest"}', "invalid character"),
        (rb'{"a": 1} "\ude00 and a longer rest"', "trailing characters"),
        (b'{"a": x, "b": "\xed\xa0\xbd"}', "invalid character"),
        (b'{"a": "\xff", "b": "\xed\xa0\xbd"}', "it is not UTF-8"),
        (rb'{"a": "\\ud83d', "truncated"),
        (rb'{"a": "\ud83d\ude00', "truncated"),
    ],
)
def test_only_the_place_where_the_parser_stopped_is_searched(body: bytes, reason: str) -> None:
    """A search of the whole body takes half a second for one that has 7 MiB."""
    with pytest.raises(Refusal, match=reason):
        parse_object(body, JsonLimits())


def test_the_place_is_right_at_the_end_of_a_large_body() -> None:
    body = b'{"a": "' + rb"\\" * 100_000 + rb'\ud83d"}'
    with pytest.raises(Refusal, match=r"byte 200007 begins half of a surrogate pair \(.ud83d\)"):
        parse_object(body, JsonLimits())

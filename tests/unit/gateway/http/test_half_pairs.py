"""Text with half of a surrogate pair is refused with that reason; whole pairs pass."""

from __future__ import annotations

import pytest

from paceline.gateway.http.errors import Refusal
from paceline.gateway.http.strict_json import parse_object
from paceline.gateway.settings import JsonLimits


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

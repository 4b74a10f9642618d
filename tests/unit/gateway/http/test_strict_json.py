"""Keys and depth are limited, and bodies that parsers read differently are refused."""

from __future__ import annotations

import time

import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.settings import JsonLimits


def test_keys_are_counted_over_all_levels() -> None:
    body = b'{"a": {"b": 1, "c": [{"d": 2}]}}'
    assert parse_object(body, JsonLimits(max_depth=4, max_keys=4)) == {
        "a": {"b": 1, "c": [{"d": 2}]}
    }
    with pytest.raises(Refusal, match="more than 3 keys"):
        parse_object(body, JsonLimits(max_depth=4, max_keys=3))
    with pytest.raises(Refusal, match="at most 3 levels"):
        parse_object(body, JsonLimits(max_depth=3, max_keys=4))


def test_repeated_keys_count_and_cost_no_more_time_than_others() -> None:
    """Repeated keys follow many single keys; a scan of those for each repeat would take seconds."""
    singles = b",".join(b'"k%d":1' % i for i in range(1000))
    body = b"{" + singles + b',"r":1' * 100_000 + b"}"
    with pytest.raises(Refusal, match="more than 20000 keys"):
        parse_object(body, JsonLimits(max_depth=64, max_keys=20_000))
    singles = b",".join(b'"k%d":1' % i for i in range(10_000))
    body = b"{" + singles + b',"r":1' * 10_000 + b"}"
    began_s = time.process_time()
    with pytest.raises(Refusal, match="'r' is repeated"):
        parse_object(body, JsonLimits(max_depth=64, max_keys=20_000))
    assert time.process_time() - began_s < 0.5  # a few milliseconds; quadratic: over a second


def test_depth_in_the_value_of_a_repeated_key_is_refused() -> None:
    """Also where the depth is within the limit of one parser and beyond that of the other."""
    for depth in range(850, 1000):
        body = b'{"a": ' + b"[" * depth + b"]" * depth + b', "a": 1}'
        with pytest.raises(Refusal):
            parse_object(body, JsonLimits(max_depth=64, max_keys=9))


def test_colons_in_text_do_not_count_as_keys() -> None:
    assert parse_object(b'{"a": "b: c: d"}', JsonLimits(max_depth=1, max_keys=1)) == {
        "a": "b: c: d"
    }
    with pytest.raises(Refusal, match="'b' is repeated"):
        parse_object(b'{"a": [{"b": ":", "b": 1}]}', JsonLimits(max_depth=4, max_keys=9))

"""Every field of every route has exactly the limits that its refusal states.

The cases are generated from the text of the refusals, so a new field is tested without an entry
here. A new kind of text fails, until its cases are added.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests import fields
from paceline.runtime.gateway.requests.validation import CHAT, check_request
from unit.gateway.conftest import SETTINGS, chat

_TABLES = {name: table for name, table in vars(fields).items() if name.endswith("_FIELDS")}
_FIELDS = [(name, key) for name, table in sorted(_TABLES.items()) for key in sorted(table)]
_CHECKED_ELSEWHERE = {"messages", "prompt", "input", "instructions", "tools"}

_EDGES: list[Any] = [-1, 0, 2**63, -(2**63) - 1, True, 1.5, "", "x", [], [[]], {}, "5"]
"""Tried on every field, and refused unless the field's kind allows them."""

Cases = tuple[list[Any], list[Any]]
"""(allowed, refused)"""


def integers(low: str, high: str) -> Cases:
    a, b = int(low), int(high)
    edges = [value for value in (-1, 0, 2**63, 2**63 - 1) if a <= value <= b]
    return [a, b, float(a), *edges], [a - 1, b + 1, 1.5, str(a)]


def numbers(low: str, high: str) -> Cases:
    a, b = float(low), float(high)
    edges = [value for value in (-1, 0, 1.5) if a <= value <= b]
    return [a, b, (a + b) / 2, *edges], [a - 0.001, b + 0.001, b + 1, 1e308, str(b)]


def texts_of(max_chars: str) -> Cases:
    n = int(max_chars)
    edges = [value for value in ("", "x", "5") if len(value) <= n]
    return ["x" * n, *edges], ["x" * (n + 1), ["x"]]


def lists_of_texts(max_items: str, max_chars: str) -> Cases:
    n, m = int(max_items), int(max_chars)
    return (
        [[], ["x"] * n, ["x" * m]],
        [["x"] * (n + 1), ["x" * (m + 1)], [""], [1], [None], ["x", 1]],
    )


def lists_of_ids(max_items: str) -> Cases:
    n = int(max_items)
    return (
        [[], [0], [1.0], [2**31 - 1], [7] * n],
        [[7] * (n + 1), [-1], [2**31], [2**63], [True], [1.5], ["1"]],
    )


def entries(max_entries: str) -> Cases:
    n = int(max_entries)
    return [{}, numbered(n)], [numbered(n + 1)]


def numbered(count: int) -> dict[str, int]:
    return {str(index): 1 for index in range(count)}


def objects(max_bytes: str) -> Cases:
    n = int(max_bytes)
    return [{}, sized(n)], [sized(n + 1)]


def sized(num_bytes: int) -> dict[str, str]:
    """An object of this many bytes."""
    value = {"a": "x" * (num_bytes - len('{"a":""}'))}
    assert len(msgspec.json.encode(value)) == num_bytes
    return value


def choices() -> Cases:
    return [{}, sized(100_000), "none", "auto", "required"], ["any", "AUTO"]


def stops(max_items: str, max_chars: str) -> Cases:
    allowed, refused = lists_of_texts(max_items, max_chars)
    m = int(max_chars)
    return [*allowed, "x", "5", "x" * m], [*refused, "x" * (m + 1)]


def words(listed: str) -> Cases:
    named = listed.split(" or ")
    return list(named), [name.upper() for name in named] + [f"{name} " for name in named]


def limits_on_drafts(max_length: str) -> Cases:
    n = int(max_length)
    fine = [{"max_draft_length": value} for value in (0, n, 1.0)]
    wrong = [{"max_draft_length": value} for value in (-1, n + 1, True, 1.5, "1", None)]
    return fine, [*wrong, {"draft_length": 1}, {"max_draft_length": 1, "policy": "off"}, 3]


_KINDS: list[tuple[str, Callable[..., Cases]]] = [
    (r"an integer from (-?\d+) to (\d+)", integers),
    (r"a number from (-?[\d.]+) to ([\d.]+)", numbers),
    (r"a string of at most (\d+) characters", texts_of),
    (r"a list of at most (\d+) strings of 1 to (\d+) characters", lists_of_texts),
    (r"a list of at most (\d+) token ids", lists_of_ids),
    (r"an object with at most (\d+) entries", entries),
    (r"an object of at most (\d+) bytes", objects),
    (r"none, auto, required, or an object", choices),
    (r"a string or a list of at most (\d+) strings, each of 1 to (\d+) characters", stops),
    (r'{"max_draft_length": N} .* 0 .* to (\d+), .*', limits_on_drafts),
    (r"true or false", lambda: ([True, False], [1, "true"])),
    (r"false", lambda: ([False], [True, "false"])),
    (r"1: .*", lambda: ([1, 1.0], [2, 1.5])),
    (r"((?!true)[a-z0-9_]+(?: or [a-z0-9_]+)+)", words),
]


def cases_for(allowed: str) -> Cases:
    for pattern, make in _KINDS:
        match = re.fullmatch(pattern, allowed)
        if match is not None:
            return make(*match.groups())
    raise AssertionError(f"{allowed!r} is a new kind of limit; add its cases")


@pytest.mark.parametrize(("table", "name"), _FIELDS)
def test_every_field_has_its_stated_limits(table: str, name: str) -> None:
    check = _TABLES[table][name]
    allowed = check(object())
    if allowed is None:
        assert name in _CHECKED_ELSEWHERE, f"{name} accepts anything"
        return
    fine, wrong = cases_for(allowed)
    for value in fine:
        assert check(value) is None, brief(value)
    for value in wrong:
        assert check(value) == allowed, brief(value)
    for value in _EDGES:
        is_fine = any(type(value) is type(one) and value == one for one in fine)
        assert check(value) == (None if is_fine else allowed), brief(value)


def test_the_tables_are_found() -> None:
    assert {"CHAT_FIELDS", "COMPLETION_FIELDS"} <= _TABLES.keys()
    assert len(_FIELDS) > 60


@pytest.mark.parametrize("value", [-1, 0, SETTINGS.max_choices + 1, 2**63, True, 1.5, "1", []])
def test_the_number_of_answers_has_the_operators_limit(value: object) -> None:
    body = msgspec.json.encode(chat(n=SETTINGS.max_choices))
    assert check_request(CHAT, body, SETTINGS).num_choices == SETTINGS.max_choices
    with pytest.raises(Refusal) as caught:
        check_request(CHAT, msgspec.json.encode(chat(n=value)), SETTINGS)
    assert caught.value.problem.param == "n"


def brief(value: object) -> str:
    return repr(value)[:80]

"""Counts of JSON text that arrives in parts equal those of the decoded text."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.json_structure import JsonStructure
from paceline.runtime.gateway.settings import JsonLimits

_TEXTS = st.text(alphabet='ab,:[]{}"\\é中\n', max_size=8)
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


def counted(*parts: bytes, limits: JsonLimits | None = None) -> JsonStructure:
    structure = JsonStructure(limits or JsonLimits())
    for part in parts:
        structure.feed(part)
    return structure


@settings(max_examples=200, deadline=None)
@given(_DOCUMENTS, st.booleans(), st.data())
def test_counts_equal_those_of_the_decoded_text_however_it_is_cut(
    document: object, is_ascii: bool, data: st.DataObject
) -> None:
    body = json.dumps(document, ensure_ascii=is_ascii).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    parts = [body[start:end] for start, end in pairwise([0, *cuts, len(body)])]
    structure = counted(*parts)
    keys, containers, values = count(document)
    assert structure.num_keys == keys
    assert structure.num_containers == containers
    # An empty container counts once more: it has as many commas as one with one value.
    assert values <= structure.num_values <= values + containers


def count(node: object) -> tuple[int, int, int]:
    """(keys, containers, values) of a decoded document."""
    if not isinstance(node, dict | list):
        return 0, 0, 1
    children = list(node.values()) if isinstance(node, dict) else node
    below = [count(child) for child in children]
    keys, containers, values = (sum(column) for column in zip(*below, strict=True)) if below else (
        0, 0, 0,
    )  # fmt: skip
    return keys + (len(node) if isinstance(node, dict) else 0), containers + 1, values + 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"x":[' + b"[]," * 30 + b"[]]}", "too_many_containers"),
        (b'{"x":[' + b"{}," * 30 + b"{}]}", "too_many_containers"),
        (b"[" * 31, "too_many_containers"),
        (b'{"x":[' + b"1," * 100 + b"1]}", "too_many_values"),
        (b'{"x":[' + b'"",' * 100 + b'""]}', "too_many_values"),
        (b"{" + b'"a":1,' * 50 + b'"a":1}', "too_many_keys"),
    ],
)
def test_a_limit_is_kept_before_the_text_is_complete(body: bytes, code: str) -> None:
    limits = JsonLimits(max_keys=40, max_containers=20, max_values=90)
    with pytest.raises(Refusal) as refused:
        counted(*(body[at : at + 1] for at in range(len(body) - 1)), limits=limits)
    assert refused.value.problem.code == code


@pytest.mark.parametrize("num_quotes", range(6))
def test_adjacent_quotes_keep_what_is_inside_and_outside_apart(num_quotes: int) -> None:
    structure = counted(b'["a' + b'"' * num_quotes + b"[")
    assert structure.num_containers == 1 + num_quotes % 2


@pytest.mark.parametrize("num_backslashes", range(6))
@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_backslashes_at_the_ends_of_parts_without_quotes_escape_the_next_quote(
    num_backslashes: int, num_parts: int
) -> None:
    """After an odd number of backslashes the quote is part of the string, and the bracket too."""
    structure = counted(b'["a', *([b"\\" * num_backslashes] * num_parts), b'"', b"[")
    is_escaped = num_backslashes * num_parts % 2 == 1
    assert structure.num_containers == (1 if is_escaped else 2)


def test_what_is_inside_a_text_counts_as_nothing() -> None:
    text = 'a, b: [c], {"d": 1}, \\'
    structure = counted(json.dumps({"prompt": text * 50_000}).encode())
    assert (structure.num_keys, structure.num_containers) == (1, 1)
    assert structure.num_values <= 3

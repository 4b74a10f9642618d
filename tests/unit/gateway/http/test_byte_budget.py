"""Requests reserve bytes, are refused without room, and release what they reserved."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.http.byte_budget import REQUEST_BYTES, ByteBudget, ReservedBytes
from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.http.json_structure import JsonStructure
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.settings import JsonLimits

MIB = 1024 * 1024


@contextmanager
def reserving(budget: ByteBudget, tenant: str | None = None) -> Iterator[ReservedBytes]:
    reserved = budget.request(tenant)
    reserved.begin()
    try:
        yield reserved
    finally:
        reserved.release()


def test_bytes_are_reserved_until_the_request_ends() -> None:
    changes: list[int] = []
    budget = ByteBudget(MIB, on_change=changes.append)
    with reserving(budget) as reserved:
        reserved.resize(100)
        reserved.resize(50)
        reserved.grow(7)
        assert budget.num_bytes == reserved.num_bytes == REQUEST_BYTES + 57
        reserved.drop_contents()
        assert budget.num_bytes == reserved.num_bytes == REQUEST_BYTES
    assert budget.num_bytes == sum(changes) == 0


def test_a_reservation_that_has_not_begun_takes_and_releases_nothing() -> None:
    budget = ByteBudget(REQUEST_BYTES)
    with reserving(budget):
        other = budget.request("b")
        other.drop_contents()
        other.release()
        assert budget.num_bytes == REQUEST_BYTES


def test_without_room_nothing_is_reserved() -> None:
    budget = ByteBudget(2 * REQUEST_BYTES)
    with reserving(budget, "a") as first, reserving(budget, "b"):
        with pytest.raises(Refusal) as refused:
            first.grow(1)
        assert budget.num_bytes == 2 * REQUEST_BYTES
        with pytest.raises(Refusal):
            budget.request("c").begin()
        assert budget.num_bytes == 2 * REQUEST_BYTES
    problem = refused.value.problem
    assert (problem.status, problem.code, problem.retry_after_s) == (503, "buffers_full", 5)
    assert refused.value.outcome is Outcome.OVERLOADED
    assert budget.num_bytes == 0


def test_a_tenant_is_bounded_and_leaves_room_for_the_others() -> None:
    budget = ByteBudget(10 * REQUEST_BYTES, 3 * REQUEST_BYTES)
    with reserving(budget, "greedy") as reserved:
        reserved.grow(2 * REQUEST_BYTES)
        with pytest.raises(Refusal) as refused:
            budget.request("greedy").begin()
        assert (refused.value.problem.status, refused.value.problem.code) == (
            429, "tenant_buffers_full",
        )  # fmt: skip
        with reserving(budget, "other"):
            pass
    with reserving(budget, "greedy"):
        pass


@pytest.mark.parametrize("tenant", [None, "a"])
def test_an_idle_process_holds_one_request_of_any_size(tenant: str | None) -> None:
    budget = ByteBudget(4 * REQUEST_BYTES, 2 * REQUEST_BYTES)
    for _ in range(2):
        with reserving(budget, tenant) as reserved:
            reserved.resize(100 * REQUEST_BYTES)
            reserved.grow(100 * REQUEST_BYTES)
            reserved.resize(150 * REQUEST_BYTES)
        assert budget.num_bytes == 0


def test_a_second_large_request_is_refused_and_small_ones_are_not() -> None:
    budget = ByteBudget(4 * REQUEST_BYTES, 3 * REQUEST_BYTES)
    with reserving(budget, "a") as large:
        large.resize(50 * REQUEST_BYTES)
        with reserving(budget, "a"), reserving(budget, "a"), reserving(budget, "b") as other:
            with pytest.raises(Refusal) as refused:
                other.resize(3 * REQUEST_BYTES)
            assert (refused.value.problem.status, refused.value.problem.code) == (
                503, "buffers_full",
            )  # fmt: skip
            assert other.num_bytes == REQUEST_BYTES
    with reserving(budget, "b") as large:
        large.resize(50 * REQUEST_BYTES)


def test_a_large_request_that_has_shrunk_leaves_its_place_to_another() -> None:
    budget = ByteBudget(4 * REQUEST_BYTES)
    with reserving(budget) as first, reserving(budget) as second:
        first.resize(50 * REQUEST_BYTES)
        first.drop_contents()
        second.resize(50 * REQUEST_BYTES)
        with pytest.raises(Refusal):
            first.resize(50 * REQUEST_BYTES)


def test_a_large_request_that_has_shrunk_keeps_its_place_while_the_budget_is_full() -> None:
    budget = ByteBudget(4 * REQUEST_BYTES)
    with reserving(budget) as first:
        first.resize(50 * REQUEST_BYTES)
        with reserving(budget) as second:
            second.resize(3 * REQUEST_BYTES)
            first.drop_contents()
            first.resize(50 * REQUEST_BYTES)
        first.drop_contents()
    assert budget.num_bytes == 0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from(["resize", "drop", "release"]), st.integers(0, 9)
        )
    )
)
def test_what_is_held_beside_the_budget_is_at_most_one_request(
    steps: list[tuple[int, str, int]],
) -> None:
    budget = ByteBudget(6 * REQUEST_BYTES, 4 * REQUEST_BYTES)
    held = [budget.request("ab"[index % 2]) for index in range(5)]
    for index, step, size in steps:
        one = held[index]
        before = one.num_bytes
        try:
            if step == "resize":
                one.resize(size * REQUEST_BYTES)
            else:
                one.drop_contents() if step == "drop" and before else one.release()
        except Refusal:
            assert one.num_bytes == before
        sizes = sorted(other.num_bytes for other in held)
        assert budget.num_bytes == sum(sizes)
        assert sum(sizes[:-1]) <= 6 * REQUEST_BYTES or sizes[-1] == sizes[-2]
        assert budget.num_bytes <= 6 * REQUEST_BYTES + sizes[-1]
    for one in held:
        one.release()
    held[0].resize(50 * REQUEST_BYTES)
    assert budget.num_bytes == 51 * REQUEST_BYTES


_TEXTS = st.text(alphabet="ab中é😀\n", max_size=30)
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXTS, inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None)
@given(_DOCUMENTS, st.booleans(), st.integers(1, 9))
def test_decoded_bytes_are_an_upper_bound(
    document: object, is_ascii: bool, bytes_per_part: int
) -> None:
    body = json.dumps(document, ensure_ascii=is_ascii).encode()
    structure = JsonStructure(JsonLimits())
    for start in range(0, len(body), bytes_per_part):
        structure.feed(body[start : start + bytes_per_part])
    assert memory_of(json.loads(body)) <= structure.decoded_bytes


@pytest.mark.parametrize(
    ("char", "char_bytes"), [("a", 1), ("中", 2), ("\\u4e2d", 2), ("😀", 4), ("\\ud83d\\ude00", 4)]
)
@pytest.mark.parametrize("bytes_per_part", [1, 2, 3, 1000])
def test_the_widest_character_counts_however_the_text_is_cut(
    char: str, char_bytes: int, bytes_per_part: int
) -> None:
    decoded = []
    for num_chars in (50, 150):
        body = f'{{"x":"{"a" * num_chars}{char}"}}'.encode()
        structure = JsonStructure(JsonLimits())
        for start in range(0, len(body), bytes_per_part):
            structure.feed(body[start : start + bytes_per_part])
        decoded.append(structure.decoded_bytes)
    assert decoded[1] - decoded[0] == 100 * char_bytes


def memory_of(node: Any) -> int:
    """Bytes that the node and everything below it take."""
    below = [*node, *node.values()] if isinstance(node, dict) else node
    children = below if isinstance(node, dict | list) else []
    return sys.getsizeof(node) + sum(memory_of(child) for child in children)

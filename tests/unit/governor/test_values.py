"""Which draft lengths a load allows."""

from __future__ import annotations

import pytest

from paceline.runtime.governor.values import EngineLoad


def load(ceiling: int, allowed: tuple[int, ...] | None) -> EngineLoad:
    return EngineLoad(4, 900, 0, 0, max_draft_length=ceiling, allowed_lengths=allowed)


@pytest.mark.parametrize(
    ("ceiling", "allowed", "wanted", "longest"),
    [
        (8, None, 5, 5),
        (4, None, 5, 4),
        (8, (0, 1, 3, 7), 8, 7),
        (8, (0, 1, 3, 7), 7, 7),
        (8, (0, 1, 3, 7), 2, 1),
        (6, (0, 1, 3, 7), 7, 3),
        (2, (0, 3), 7, 0),
    ],
)
def test_the_longest_allowed_length(
    ceiling: int, allowed: tuple[int, ...] | None, wanted: int, longest: int
) -> None:
    assert load(ceiling, allowed).longest_allowed(wanted) == longest


@pytest.mark.parametrize(
    ("ceiling", "allowed", "now", "longer"),
    [
        (8, None, 5, 6),
        (8, None, 7, 8),
        (7, (0, 1, 3, 7), 3, 7),
        (5, None, 5, None),
        (8, (0, 1, 3, 7), 0, 1),
        (8, (0, 1, 3, 7), 2, 3),
        (6, (0, 1, 3, 7), 3, None),
        (8, (0, 1, 3, 7), 7, None),
    ],
)
def test_the_next_longer_allowed_length(
    ceiling: int, allowed: tuple[int, ...] | None, now: int, longer: int | None
) -> None:
    assert load(ceiling, allowed).next_allowed(now) == longer


def test_the_lengths_below_a_count() -> None:
    assert list(load(8, None).allowed_below(3)) == [0, 1, 2]
    assert list(load(8, (0, 1, 3, 7)).allowed_below(7)) == [0, 1, 3]
    assert list(load(8, (0, 1, 3, 7)).allowed_below(8)) == [0, 1, 3, 7]


def test_requests_that_prefill_do_not_decode() -> None:
    assert EngineLoad(4, 900, 0, 0, 8, num_prefilling=3).num_decoding == 1

"""How long nothing is drafted before one draft is tried."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from paceline.governor.policies.undrafted_pause import UndraftedPause


def looks(pause: UndraftedPause, batches: Iterable[tuple[int, dict[str, int]]]) -> list[int]:
    """The steps, from 1 on, in which it is over."""
    steps = enumerate(batches, start=1)
    return [step for step, (num, classes) in steps if pause.is_over(num, classes)]


def test_a_look_without_effect_doubles_the_pause_up_to_128_steps() -> None:
    found = looks(UndraftedPause(), [(4, {})] * 700)
    assert [later - earlier for earlier, later in pairwise([0, *found])] == (
        [1, 2, 4, 8, 16, 32, 64, 128, 128, 128, 128]
    )


def test_twice_as_many_requests_or_half_as_many_are_looked_at_at_once() -> None:
    """From 8 to 15 is less than twice."""
    pause = UndraftedPause()
    looks(pause, [(8, {})] * 200)
    assert looks(pause, [(15, {})] * 50) == []
    assert looks(pause, [(16, {})] * 3) == [1, 3]
    assert looks(pause, [(8, {})]) == [1]


def test_a_batch_that_varies_around_a_power_of_two_is_one_load() -> None:
    """15 and 16 in turn: no more looks than of 16."""
    varying = looks(UndraftedPause(), [(15, {}), (16, {})] * 100)
    assert varying == looks(UndraftedPause(), [(16, {})] * 200)


def test_a_new_class_is_looked_at_at_once_and_one_that_comes_back_is_not() -> None:
    pause = UndraftedPause()
    looks(pause, [(4, {"greedy": 4})] * 200)
    assert looks(pause, [(4, {"greedy": 3, "sampled": 1})] * 3) == [1, 3]
    later = looks(pause, [(4, {"greedy": 4}), (4, {"greedy": 3, "sampled": 1})] * 10)
    assert later == [4, 12]


def test_after_drafting_was_worth_it_the_pause_is_short() -> None:
    pause = UndraftedPause()
    looks(pause, [(4, {})] * 200)
    pause.ended()
    assert looks(pause, [(4, {})] * 3) == [1, 3]

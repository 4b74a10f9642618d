"""How long nothing is drafted before a test draft."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

from paceline.governor.policies.undrafted_pause import UndraftedPause


def drafted_in(pause: UndraftedPause, batches: Iterable[tuple[int, dict[str, int]]]) -> list[int]:
    """The steps, from 1 on, in which it is over."""
    steps = enumerate(batches, start=1)
    return [step for step, (num, classes) in steps if pause.is_over(num, classes)]


def all_better(pause: UndraftedPause, num_steps: int) -> list[int]:
    """The same, for four requests whose test drafts are all better than expected."""
    found = []
    for step in range(1, num_steps + 1):
        if pause.is_over(4, {}):
            found.append(step)
            pause.repeat()
    return found


def test_a_test_draft_without_effect_doubles_the_pause_up_to_128_steps() -> None:
    found = drafted_in(UndraftedPause(), [(4, {})] * 700)
    assert [later - earlier for earlier, later in pairwise([0, *found])] == (
        [1, 2, 4, 8, 16, 32, 64, 128, 128, 128, 128]
    )


def test_twice_as_many_requests_or_half_as_many_have_a_test_draft_at_once() -> None:
    """From 8 to 15 is less than twice."""
    pause = UndraftedPause()
    drafted_in(pause, [(8, {})] * 200)
    assert drafted_in(pause, [(15, {})] * 50) == []
    assert drafted_in(pause, [(16, {})] * 3) == [1, 3]
    assert drafted_in(pause, [(8, {})]) == [1]


def test_a_batch_that_varies_around_a_power_of_two_is_one_load() -> None:
    """15 and 16 in turn: no more test drafts than of 16."""
    varying = drafted_in(UndraftedPause(), [(15, {}), (16, {})] * 100)
    assert varying == drafted_in(UndraftedPause(), [(16, {})] * 200)


def test_a_new_class_has_a_test_draft_at_once_and_one_that_comes_back_has_not() -> None:
    pause = UndraftedPause()
    drafted_in(pause, [(4, {"greedy": 4})] * 200)
    assert drafted_in(pause, [(4, {"greedy": 3, "sampled": 1})] * 3) == [1, 3]
    later = drafted_in(pause, [(4, {"greedy": 4}), (4, {"greedy": 3, "sampled": 1})] * 10)
    assert later == [4, 12]


def test_after_drafting_was_worth_it_the_pause_is_short() -> None:
    pause = UndraftedPause()
    drafted_in(pause, [(4, {})] * 200)
    pause.ended()
    assert drafted_in(pause, [(4, {})] * 3) == [1, 3]


def test_eight_test_drafts_may_follow_each_other_and_each_lengthens_the_pause() -> None:
    """The first one of a row doubles the pause. Eight at a pause of 2 take the time of eight pauses
    of 2, then eight the time of eight pauses of 4."""
    found = all_better(UndraftedPause(), 100)
    assert found == [*range(1, 9), *range(17, 25), *range(49, 57)]


def test_in_the_long_run_one_step_in_128_has_a_test_draft() -> None:
    """Also if all are better than expected. Rows of eight begin in step 1, 16 steps later, and 32,
    64, 128, 256 and 512 steps later, which is step 1009. From there on a row begins every 1,024
    steps. The 19th of these begins in step 1009 + 18 * 1024 = 19,441."""
    found = all_better(UndraftedPause(), 20_000)
    start = [step for step in found if step < 1009]
    assert len(start) == 6 * 8
    assert len(found) - len(start) == 19 * 8
    assert found[-1] == 19_448


def test_a_repeat_is_the_next_step_only() -> None:
    """After the second test draft, in step 3, the pause is 4: the repeat in step 4 takes one more
    of them, so the next one is in step 11."""
    pause = UndraftedPause()
    drafted_in(pause, [(4, {})] * 3)
    pause.repeat()
    assert drafted_in(pause, [(4, {})] * 15) == [1, 8]


@pytest.mark.parametrize("batch", [(8, {}), (4, {"greedy": 4})], ids=["load", "class"])
def test_another_load_has_a_test_draft_at_once_after_a_row_of_them(
    batch: tuple[int, dict[str, int]],
) -> None:
    """The steps that the row took are those of the other load: 7 * 127 at the longest pause."""
    pause = UndraftedPause()
    assert all_better(pause, 1016)[-8:] == [*range(1009, 1017)]
    assert drafted_in(pause, [batch] * 3) == [1, 3]

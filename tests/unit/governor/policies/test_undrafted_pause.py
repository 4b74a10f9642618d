"""How long nothing is drafted before a test draft.

A step of `SECONDS` takes half as long again with one draft token, so a test costs 0.5 steps, and
1/12 would be gained in the mean if the acceptance were known. The longest pause is
sqrt(2 * 0.5 * 500 * 12) = 77.5 steps, the first one a sixteenth, 4.8.
"""

from __future__ import annotations

import doctest
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from paceline.runtime.governor.policies import undrafted_pause as module
from paceline.runtime.governor.policies.undrafted_pause import UndraftedPause, gain_of_knowing

SECONDS = (1.0, 1.5)
GROWING = [5, 10, 20, 39, 78, 78, 78]
"""4.8 steps, rounded up, and twice as many with each test draft."""


def drafted_in(
    pause: UndraftedPause,
    batches: Iterable[tuple[int, dict[str, int]]],
    seconds: Sequence[float] = SECONDS,
) -> list[int]:
    """The steps, from 1 on, in which it is over."""
    steps = enumerate(batches, start=1)
    return [step for step, (num, names) in steps if pause.is_over(num, names, seconds, 1)]


def all_better(pause: UndraftedPause, num_steps: int) -> list[int]:
    """The same, for four requests whose test drafts are all accepted, where 0.3 was expected."""
    found = []
    for step in range(1, num_steps + 1):
        if pause.is_over(4, {}, SECONDS, 1):
            found.append(step)
            pause.judge(4, 4, 0.3)
    return found


def gaps(steps: Sequence[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(steps)]


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(module).failed == 0


def test_nothing_is_gained_where_a_draft_costs_a_whole_step() -> None:
    """Two tokens in two steps at best."""
    assert gain_of_knowing([1.0, 2.0])[0] == 0.0
    assert drafted_in(UndraftedPause(), [(4, {})] * 5000, (1.0, 2.0)) == []


def test_longer_drafts_count_where_they_are_better() -> None:
    """A free second token: at an acceptance of 1, three tokens in 1.5 steps."""
    assert gain_of_knowing([1.0, 1.5, 1.5])[0] > gain_of_knowing([1.0, 1.5])[0]


def test_a_test_draft_without_effect_doubles_the_pause() -> None:
    found = drafted_in(UndraftedPause(), [(4, {})] * 320)
    assert found[0] == 1
    assert gaps(found) == GROWING


def test_the_pause_grows_with_the_root_of_the_cost() -> None:
    """Four times the cost, a catch-up of 1.5 steps included: twice the pause."""
    pause = UndraftedPause()
    for _ in range(60):
        pause.caught_up(1.5)
    assert gaps(drafted_in(pause, [(4, {})] * 320)) == [10, 20, 39, 78, 155]


def test_catching_up_is_learned_by_halves_and_never_saves_time() -> None:
    pause = UndraftedPause()
    pause.caught_up(3.0)
    pause.caught_up(-100.0)
    pause.caught_up(3.75)  # (3 / 2 + 0) / 2 = 0.75, and half of the way to 3.75
    pause.caught_up(0.75)  # 2.25, and half of the way to 0.75: 1.5
    assert gaps(drafted_in(pause, [(4, {})] * 100)) == [10, 20, 39]


def test_a_change_is_tested_at_once_only_if_that_pays_within_100_steps() -> None:
    """A gain of 100/12 = 8.3 steps against 0.5 and 8: at once. Against 0.5 and 8.5: after a
    sixteenth of sqrt(2 * 9 * 500 * 12), 21 steps."""
    for catch_up_s, first in ((7.5, 1), (8.5, 21)):
        pause = UndraftedPause()
        for _ in range(60):
            pause.caught_up(catch_up_s)
        assert drafted_in(pause, [(4, {})] * 25)[0] == first


def test_twice_as_many_requests_or_half_as_many_have_a_test_draft_at_once() -> None:
    """From 8 to 15 is less than twice."""
    pause = UndraftedPause()
    drafted_in(pause, [(8, {})] * 155)
    assert drafted_in(pause, [(15, {})] * 50) == []
    assert drafted_in(pause, [(16, {})] * 20) == [1, 6, 16]
    assert drafted_in(pause, [(8, {})]) == [1]


def test_a_load_that_changes_all_the_time_has_a_test_draft_in_a_quarter_of_the_pause() -> None:
    """77.5 / 4 = 19.4 steps, and two of the growing pause between."""
    found = drafted_in(UndraftedPause(), [(1, {}), (2, {})] * 500)
    assert len(found) == pytest.approx(3 * 1000 / 19.4, abs=10)


def test_no_test_is_repeated_where_nothing_can_be_gained() -> None:
    """And the steps at such a load lengthen no pause by more than they are."""
    pause = UndraftedPause()
    assert drafted_in(pause, [(4, {})]) == [1]
    pause.judge(4, 4, 0.3)
    assert drafted_in(pause, [(5, {})] * 3, (1.0, 2.0)) == []
    assert drafted_in(pause, [(4, {})] * 3) == [2]


def test_a_batch_that_varies_around_a_power_of_two_is_one_load() -> None:
    """15 and 16 in turn: no more test drafts than of 16."""
    varying = drafted_in(UndraftedPause(), [(15, {}), (16, {})] * 100)
    assert varying == drafted_in(UndraftedPause(), [(16, {})] * 200)


def test_a_new_class_has_a_test_draft_at_once_and_one_that_comes_back_has_not() -> None:
    pause = UndraftedPause()
    drafted_in(pause, [(4, {"greedy": 4})] * 155)
    both = {"greedy": 3, "sampled": 1}
    assert drafted_in(pause, [(4, both)] * 6) == [1, 6]
    assert drafted_in(pause, [(4, {"greedy": 4}), (4, both)] * 10) == [10]


def test_after_drafting_was_worth_it_the_pause_is_short() -> None:
    pause = UndraftedPause()
    drafted_in(pause, [(4, {})] * 200)
    pause.ended()
    assert drafted_in(pause, [(4, {})] * 16) == [5, 15]


def test_test_drafts_that_speak_for_a_change_follow_each_other_and_lengthen_the_pause() -> None:
    """24 in a row at a pause of 4.84. The 23 repeats take the time of 23 pauses, less the 23 steps
    in which they are: the next row begins 111.4 - 23 + 4.84 = 93.2 steps later."""
    assert all_better(UndraftedPause(), 118) == [*range(1, 25), 118]


def test_in_the_long_run_test_drafts_are_as_rare_as_without_repeats() -> None:
    """Four rows of 24 take 24 pauses of 4.8, 9.7, 19.4 and 38.7 steps. Then a row of 24 takes 24
    pauses of 77.5 steps: 18,000 steps have 9 or 10 of these."""
    found = all_better(UndraftedPause(), 20_000)
    assert len([step for step in found if step > 2_000]) in (216, 240)


@pytest.mark.parametrize(
    ("verdicts", "repeats"),
    [
        ("0", False),  # nothing accepted
        ("1", True),
        ("10", True),  # ln(0.525 / 0.3) = 0.56 for the change, ln(0.475 / 0.7) = -0.39 against
        ("100", False),
        ("1100", True),  # 1.12 against 0.78
        ("11000", False),
    ],
)
def test_tests_continue_while_the_evidence_is_for_the_acceptance_that_pays(
    verdicts: str, repeats: bool
) -> None:
    """0.3 is expected, and from 0.525 on drafting pays."""
    pause = UndraftedPause()
    pause.is_over(1, {}, SECONDS, 1)
    for verdict in verdicts:
        pause.judge(int(verdict), 1, 0.3)
    assert pause.is_over(1, {}, SECONDS, 1) == repeats


def test_the_evidence_of_a_crowd_counts_as_that_of_eight() -> None:
    """64 requests: 38 of them accepted speak for 0.525, 0.56 * 4.75 - 0.39 * 3.25 = 1.4 in all. Two
    of four against it are 0.78 less, three of four more than that."""
    pause = UndraftedPause()
    pause.is_over(64, {}, SECONDS, 1)
    pause.judge(38, 64, 0.3)
    for expected in (True, False):
        pause.judge(0, 2, 0.3)
        assert pause.is_over(64, {}, SECONDS, 1) == expected


def test_nothing_is_repeated_where_acceptance_is_not_what_keeps_drafting_off() -> None:
    """0.9 would pay; another objective rules it out."""
    pause = UndraftedPause()
    pause.is_over(1, {}, SECONDS, 1)
    pause.judge(1, 1, 0.9)
    assert not pause.is_over(1, {}, SECONDS, 1)


def test_without_measured_costs_there_are_test_drafts_that_seem_to_gain_nothing() -> None:
    """A draft that doubles a step: sqrt(2 * 1 * 500 / 0.1) = 100 steps, a sixteenth at first."""
    pause = UndraftedPause(is_cost_measured=False)
    assert gaps(drafted_in(pause, [(4, {})] * 300, (1.0, 2.0))) == [7, 13, 25, 50, 100, 100]


def test_a_repeat_is_the_next_step_only() -> None:
    pause = UndraftedPause()
    drafted_in(pause, [(4, {})])
    pause.judge(4, 4, 0.3)
    assert drafted_in(pause, [(4, {})] * 12) == [1, 10]  # 4.8 for the repeat, 4.8 more


@pytest.mark.parametrize("batch", [(8, {}), (4, {"greedy": 4})], ids=["load", "class"])
def test_another_load_has_a_test_draft_at_once_after_a_row_of_them(
    batch: tuple[int, dict[str, int]],
) -> None:
    """The steps that the row took are those of the other load."""
    pause = UndraftedPause()
    assert all_better(pause, 24) == [*range(1, 25)]
    pause.judge(0, 100, 0.3)
    pause.judge(0, 100, 0.3)
    assert drafted_in(pause, [batch] * 6) == [1, 6]

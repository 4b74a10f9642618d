"""Shares of steps near the best length, and when a policy has adapted."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.governor.interleaved.analysis import analyse
from benchmarks.governor.interleaved.lengths import (
    LengthFinding,
    adapted_after,
    find_lengths,
    good_lengths,
)
from benchmarks.governor.interleaved.measured import read_measured

from .documents import document

RATES = {
    "none": [[100.0]] * 2,
    "K=2": [[200.0]] * 2,
    "K=4": [[198.0]] * 2,
    "K=8": [[100.0]] * 2,
    "goodput": [[180.0]] * 2,
}


def find(planned: list[int], slowed: list[int] | None = None) -> LengthFinding:
    measured = read_measured(document(RATES, ["1-code"], {"goodput": planned}, slowed=slowed))
    [found] = find_lengths(measured, analyse(measured))
    return found


def test_near_is_within_one_of_the_best_length() -> None:
    """The best length is 2; the lead-in at length 99 does not count."""
    found = find([0, 1, 2, 3, 4, 2, 2, 2])
    assert found.best == (2, 2)
    assert found.near == pytest.approx(6 / 8)
    assert found.near_second_half == pytest.approx(3 / 4)


def test_good_lengths_are_those_near_the_best_rate() -> None:
    """K=4 has 99 % of the best rate; K=3 lies between them, K=5 is interpolated down to 0.84."""
    found = find([1, 2, 3, 4, 5])
    assert found.good == pytest.approx(3 / 5)


def test_good_lengths_of_a_repeat_are_judged_on_the_others() -> None:
    rates = np.array([[[100.0], [10.0]], [[10.0], [100.0]]])
    found = good_lengths(rates, np.array([0, 4]))
    assert found == [[{4}], [{0}]]


def test_steps_while_slowed_are_judged_apart() -> None:
    found = find([2, 2, 8, 2], [0, 0, 1, 1])
    assert found.near_while_slowed == pytest.approx(0.5)
    assert find([2]).near_while_slowed is None


def test_visited_lengths_and_changes() -> None:
    found = find([2, 2, 2, 4])
    assert found.visited == ((2, 0.75), (4, 0.25))
    assert found.changes_per_100_steps == pytest.approx(25.0)


def test_prompt_tokens_are_a_share_of_the_scheduled_ones() -> None:
    assert find([2, 2]).prompt_share == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ([1] * 10, 0),
        ([0] * 5 + [1] * 10, 3),
        ([0] * 20, None),
        ([1] * 9, None),
    ],
)
def test_adaptation_is_the_first_window_of_near_lengths(
    near: list[int], expected: int | None
) -> None:
    assert adapted_after(np.array(near)) == expected

"""The looks of a comparison never spend more than the total error."""

from __future__ import annotations

import pytest

from paceline.foundation.results.signed_rank import min_differences
from paceline.workbench.bench.compare.looks import LookSchedule


def test_the_first_look_comes_after_ten_rounds_and_each_other_after_1_6_times_as_many() -> None:
    """2 ** -9 = 0.00195 is the error of ten rounds that all point one way: a fifth of 1 %."""
    assert LookSchedule(140, 0.01).look_rounds == (10, 16, 26, 41, 66, 105, 140)
    assert LookSchedule(50, 0.01).look_rounds == (10, 16, 26, 50)  # 41 is too near


def test_the_looks_after_the_first_share_the_rest_equally() -> None:
    schedule = LookSchedule(50, 0.01)
    parts = [schedule.error_of_look(n, is_last=n == 50) for n in (10, 16, 26, 50)]
    assert parts == pytest.approx([0.002, 0.008 / 3, 0.008 / 3, 0.008 / 3])


def test_no_look_is_due_between() -> None:
    assert LookSchedule(50, 0.01).error_of_look(25, is_last=False) is None


def test_a_comparison_that_ends_early_spends_what_is_left() -> None:
    """After the looks at 10 and 16 rounds two thirds of 0.8 of the total are left."""
    assert LookSchedule(50, 0.01).error_of_look(20, is_last=True) == pytest.approx(0.016 / 3)


@pytest.mark.parametrize("num_rounds", range(8, 80))
def test_every_look_can_give_an_interval(num_rounds: int) -> None:
    """8 rounds are the fewest for an interval at 1 %: one look. Each look needs its own number."""
    schedule = LookSchedule(num_rounds, 0.01)
    assert schedule.look_rounds[-1] == num_rounds
    for look in schedule.look_rounds:
        error = schedule.error_of_look(look, is_last=look == num_rounds)
        assert error is not None
        assert look >= min_differences(error)


def test_few_rounds_have_a_single_look() -> None:
    assert LookSchedule(9, 0.01).look_rounds == (9,)


@pytest.mark.parametrize("num_rounds", [1, 2, 3, 7, 19, 200])
@pytest.mark.parametrize("ends_at", [0.3, 0.7, 1.0])
def test_the_parts_add_up_to_the_total(num_rounds: int, ends_at: float) -> None:
    schedule = LookSchedule(num_rounds, 0.05)
    end = max(1, round(ends_at * num_rounds))
    parts = [schedule.error_of_look(n, is_last=n == end) for n in range(1, end + 1)]
    assert sum(part for part in parts if part is not None) == pytest.approx(0.05)


@pytest.mark.parametrize(("num_rounds", "error"), [(0, 0.1), (5, 0.0), (5, 1.0)])
def test_impossible_schedules_are_refused(num_rounds: int, error: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        LookSchedule(num_rounds, error)

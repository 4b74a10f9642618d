"""How much exploration a change of load grants."""

from __future__ import annotations

import pytest

from paceline.governor.exploration.load_change import LoadChange


def grants(loads: list[tuple[int, int]], length: int = 0) -> list[float]:
    """What is granted in all steps of each (number of requests, steps) in turn."""
    change = LoadChange()
    return [
        sum(change.granted_steps(num_requests, length) for _ in range(num_steps))
        for num_requests, num_steps in loads
    ]


@pytest.mark.parametrize(("load", "granted"), [(8, 2.0), (7, 0.0), (5, 0.0), (3, 0.0), (2, 2.0)])
def test_a_load_twice_as_high_or_half_as_high_is_granted_two_steps(
    load: int, granted: float
) -> None:
    assert grants([(4, 100), (load, 100)]) == [0.0, granted]


def test_the_load_is_compared_with_that_at_the_last_grant() -> None:
    change = LoadChange()
    rising = [load for load in (8, 9, 10, 12, 14, 15, 16, 31, 32) for _ in range(60)]
    at = [load for load in rising if change.granted_steps(load, 0) > 0.0]
    assert at == [16, 32]


def test_grants_are_48_steps_apart() -> None:
    change = LoadChange()
    loads = [1 + 15 * (step // 8 % 2) for step in range(1, 200)]
    at = [step for step, load in enumerate(loads, 1) if change.granted_steps(load, 0) > 0.0]
    assert at == [56, 112, 168]


def test_the_first_grant_and_the_next_need_48_steps_each() -> None:
    change = LoadChange()
    loads = [4] * 40 + [16] * 8 + [4] * 48 + [16]
    at = [step for step, load in enumerate(loads, 1) if change.granted_steps(load, 0) > 0.0]
    assert at == [48, 96]


def test_grants_after_which_the_length_stays_become_smaller() -> None:
    granted = grants([(1, 50), (16, 50)] * 50)
    assert granted[:4] == pytest.approx([0.0, 2.0, 1.4, 0.98])
    assert sum(granted) < 4 * 2.0


def test_after_a_grant_that_moved_the_length_the_next_is_full() -> None:
    change = LoadChange()
    for _ in range(48):
        change.granted_steps(1, 0)
    assert change.granted_steps(16, 0) == 2.0
    for _ in range(48):
        change.granted_steps(16, 0)
    assert change.granted_steps(1, 0) == pytest.approx(1.4)
    change.granted_steps(1, 3)  # moved, if only for a step
    for _ in range(48):
        change.granted_steps(1, 0)
    assert change.granted_steps(16, 0) == 2.0


def test_the_length_of_the_first_grant_is_the_one_to_be_compared_with() -> None:
    assert grants([(1, 50), (16, 50), (1, 50)], length=4) == pytest.approx([0.0, 2.0, 1.4])


def test_a_length_that_follows_the_load_has_found_nothing() -> None:
    """Length 3 is best at one request and 0 at 16, and both are known."""
    change = LoadChange()
    granted = [
        sum(change.granted_steps(num_requests, length) for _ in range(50))
        for num_requests, length in [(1, 3), (16, 0)] * 20
    ]
    assert granted[:4] == pytest.approx([0.0, 2.0, 1.4, 0.98])
    assert sum(granted) < 4 * 2.0

"""The search ramps up, bisects, and then repeats the levels at the boundary."""

from __future__ import annotations

import math

import pytest

from paceline.workbench.bench.quick.levels import Window, bracket, next_level, tail_s


def window(level: int, ttft_s: float) -> Window:
    return Window(level, (ttft_s,) * 10, None, 0, None)


def search(capacity: int, *, max_level: int = 256, num_windows: int = 14) -> list[int]:
    """The levels tried on a server that answers in 0.5 s up to `capacity` and in 2 s above it."""
    windows: list[Window] = []
    while len(windows) < num_windows:
        level = next_level(windows, 1.0, max_level)
        if level is None:
            break
        windows.append(window(level, 0.5 if level <= capacity else 2.0))
    return [one.level for one in windows]


def test_the_ramp_doubles_and_the_bisection_halves() -> None:
    """After 16 fails: sqrt(8 * 16) = 11.3; 11 holds; sqrt(11 * 16) = 13.3; 13 fails; 12 holds."""
    assert search(12)[:8] == [1, 2, 4, 8, 16, 11, 13, 12]


def test_far_below_the_limit_the_ramp_goes_up_by_four() -> None:
    assert next_level([window(1, 0.01)], 1.0, 256) == 4
    assert next_level([window(1, 0.5)], 1.0, 256) == 2


def test_the_boundary_is_repeated_in_turn() -> None:
    assert search(12)[8:] == [12, 13, 12, 13, 12, 13]


def test_large_levels_are_bisected_to_an_eighth() -> None:
    levels = search(150)
    holding, failing = max(n for n in levels if n <= 150), min(n for n in levels if n > 150)
    assert failing - holding <= failing / 8


@pytest.mark.parametrize("capacity", range(30))
def test_every_capacity_is_found(capacity: int) -> None:
    windows = [window(n, 0.5 if n <= capacity else 2.0) for n in search(capacity, num_windows=20)]
    holding, failing = bracket(windows, 1.0)
    assert failing is not None
    assert holding <= capacity < failing
    assert failing - holding <= max(1, failing // 8)


def test_the_search_ends_where_nothing_is_left_to_try() -> None:
    assert search(1000, max_level=16) == [1, 2, 4, 8, 16]
    assert search(0) == [1]


def test_a_level_that_holds_above_a_failing_one_is_not_trusted() -> None:
    windows = [window(1, 0.5), window(4, 2.0), window(8, 0.5)]
    assert bracket(windows, 1.0) == (1, 4)


def test_the_tail_is_what_nine_of_ten_requests_stay_within() -> None:
    assert tail_s([0.1] * 9 + [5.0]) == 0.1
    assert tail_s([0.1] * 8 + [5.0, 5.0]) == 5.0
    assert tail_s([0.2]) == 0.2
    assert tail_s([]) == math.inf

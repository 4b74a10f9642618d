"""The held concurrency and its interval: worked values, and coverage of a known truth."""

from __future__ import annotations

import math
import random

import pytest

from paceline.workbench.bench.quick.estimate import HeldConcurrency, estimate_held
from paceline.workbench.bench.quick.levels import Window, next_level


def window(level: int, *ttfts_s: float) -> Window:
    return Window(level, ttfts_s, None, 0, None)


def test_the_crossing_is_interpolated_on_logarithmic_axes() -> None:
    """0.5 s at 4 and 2 s at 16: 1 s halfway, at 8."""
    held = estimate_held([window(4, *[0.5] * 40), window(16, *[2.0] * 40)], 1.0)
    assert held is not None
    assert held.value == 8
    assert held.high is not None
    assert held.low <= 6
    assert held.high >= 10


def test_a_jump_at_a_limit_of_slots_is_bracketed() -> None:
    held = estimate_held([window(8, *[0.1] * 40), window(9, *[math.inf] * 40)], 1.0)
    assert held == HeldConcurrency(8, 8, 8)


def test_the_highest_level_tried_is_a_lower_bound() -> None:
    held = estimate_held([window(1, *[0.1] * 9), window(256, *[0.2] * 50)], 1.0)
    assert held == HeldConcurrency(256, 256, None)


def test_one_request_alone_may_be_too_slow() -> None:
    held = estimate_held([window(1, *[1.5] * 9)], 1.0)
    assert held is not None
    assert held.value == 0
    assert held.low == 0


def test_without_windows_there_is_no_estimate() -> None:
    assert estimate_held([], 1.0) is None


@pytest.mark.parametrize("truth", [3, 11, 40])
def test_the_interval_covers_the_truth_of_noisy_servers(truth: int) -> None:
    """The tail passes 1 s at `truth`; windows differ by 10 %, requests by 30 %. 20 searches."""
    num_covered = 0
    for seed in range(20):
        rng = random.Random(seed)
        windows: list[Window] = []
        while len(windows) < 12:
            level = next_level(windows, 1.0, 256)
            if level is None:
                break
            # exp(0.3 * 1.2816) is the 90th percentile of the requests' factor.
            typical = (level / (truth + 0.5)) / math.exp(0.3 * 1.2816)
            pace = typical * math.exp(rng.gauss(0, 0.1))
            ttfts = [pace * math.exp(rng.gauss(0, 0.3)) for _ in range(max(6, 3 * level))]
            windows.append(Window(level, tuple(ttfts), None, 0, None))
        held = estimate_held(windows, 1.0, seed)
        assert held is not None
        num_covered += held.low <= truth and (held.high is None or truth <= held.high)
    assert num_covered >= 17

"""Which levels last, and what the present one is compared with."""

from __future__ import annotations

import doctest
from itertools import pairwise

import pytest

from paceline.engine.drift import level_history
from paceline.engine.drift.category_watch import AcceptanceLevel
from paceline.engine.drift.level_history import LASTING_S, LevelHistory

LONG, SHORT = LASTING_S, LASTING_S - 1.0


def level(mean: float, num_requests: int = 400) -> AcceptanceLevel:
    """Requests differ by 0.2."""
    return AcceptanceLevel(mean, 0.04, num_requests, (mean,))


class Course:
    """Levels one after the other, each for some seconds."""

    def __init__(self, *levels: tuple[float, float]) -> None:
        self.history = LevelHistory(100.0)
        self.now_s = 100.0
        for (mean, seconds), (following, _) in pairwise(levels):
            self.now_s += seconds
            self.history.shifted(self.now_s, level(mean), level(following, 60))
        self.now_s += levels[-1][1]

    @property
    def compared_with(self) -> float | None:
        """The mean of the level before, if the present one lasts."""
        if not self.history.lasts(self.now_s):
            return None
        assert self.history.before is not None
        return self.history.before.mean


@pytest.mark.parametrize(
    ("levels", "compared_with"),
    [
        ([(0.64, LONG)], None),
        ([(0.64, LONG), (0.51, SHORT)], None),
        ([(0.64, SHORT), (0.51, 10 * LONG)], None),
        ([(0.64, LONG), (0.51, LONG)], 0.64),
        # Two falls, the first of which did not last.
        ([(0.64, LONG), (0.55, SHORT), (0.45, SHORT)], None),
        ([(0.64, LONG), (0.55, SHORT), (0.45, LONG)], 0.64),
        # An excursion from a level that lasted.
        ([(0.64, LONG), (0.51, LONG), (0.64, SHORT)], None),
        ([(0.64, LONG), (0.51, LONG), (0.64, SHORT), (0.51, 0.0)], 0.64),
        ([(0.64, LONG), (0.51, LONG), *[(0.64, SHORT), (0.51, 0.0)] * 2], 0.64),
        ([(0.64, LONG), (0.51, SHORT), (0.64, 0.0)], None),
        # It came back for good, and fell again.
        ([(0.64, LONG), (0.51, LONG), (0.64, LONG)], 0.51),
        ([(0.64, LONG), (0.51, LONG), (0.64, LONG), (0.51, SHORT)], None),
        ([(0.64, LONG), (0.51, LONG), (0.64, LONG), (0.51, LONG)], 0.64),
        # Partial return.
        ([(0.64, LONG), (0.45, SHORT), (0.55, LONG)], 0.64),
        # Traffic that changes every few minutes has no lasting level.
        ([(0.64, SHORT), (0.51, SHORT)] * 20, None),
    ],
)  # fmt: skip
def test_the_present_level_is_compared_with_the_last_that_lasted(
    levels: list[tuple[float, float]], compared_with: float | None
) -> None:
    assert Course(*levels).compared_with == compared_with


@pytest.mark.parametrize(("returned_to", "is_same"), [(0.56, True), (0.57, False)])
def test_levels_are_the_same_within_two_standard_errors(returned_to: float, is_same: bool) -> None:
    """Of 400 and of 60 requests: 0.0277 together."""
    course = Course((0.64, LONG), (0.51, LONG), (0.64, SHORT), (returned_to, 0.0))
    assert (course.compared_with == 0.64) is is_same


def test_the_example_holds() -> None:
    result = doctest.testmod(level_history)
    assert result.attempted > 0
    assert result.failed == 0

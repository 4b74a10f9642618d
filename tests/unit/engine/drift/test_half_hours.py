"""When acceptance has fallen to stay, and when it has not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from paceline.runtime.engine.drift.half_hours import NUM_KEPT, HalfHours
from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums

HALF_HOUR = 30.0


class Traffic:
    """Requests of known acceptance, which differ."""

    def __init__(self, seed: int = 0, *, spread: float = 0.2, per_minute: float = 20.0) -> None:
        self.half_hours = HalfHours()
        self.now_s = 0.0
        self._random = np.random.default_rng(seed)
        self._spread, self._pause_s = spread, 60.0 / per_minute

    def send(self, mean: float, minutes: float, *, session: int = 1) -> None:
        """`session` requests in turn are alike."""
        for _ in range(round(minutes * 60.0 / self._pause_s / session)):
            acceptance = float(np.clip(self._random.normal(mean, self._spread), 0.0, 1.0))
            for _ in range(session):
                self.now_s += self._pause_s
                request = AcceptanceSums(40.0, 40.0 * acceptance, 40, [100], [round(100 * mean)])
                self.half_hours.add(request, self.now_s)

    def course(self, *levels: tuple[float, float]) -> tuple[float, float] | None:
        """Send levels for some minutes each; (best, last) of the fall, if there is one."""
        for mean, minutes in levels:
            self.send(mean, minutes)
        fall = self.half_hours.fall
        return None if fall is None else (fall.before.mean, fall.now.mean)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(0.64, 120)], None),
        ([(0.64, 90), (0.51, 62)], (0.64, 0.51)),
        # It came and went, or has only come.
        ([(0.64, 90), (0.30, 5), (0.64, 90)], None),
        ([(0.64, 90), (0.51, 20)], None),
        # Two falls, a partial return, a further fall, lower levels in turn: what is lost by now.
        ([(0.64, 90), (0.55, 25), (0.45, 65)], (0.64, 0.45)),
        ([(0.64, 90), (0.30, 10), (0.53, 85)], (0.64, 0.53)),
        ([(0.64, 90), (0.51, 60), (0.40, 62)], (0.64, 0.40)),
        ([(0.64, 90), *[(0.51, 10), (0.42, 10)] * 4], (0.64, 0.465)),
        # It came back.
        ([(0.64, 90), (0.51, 90), (0.64, 62)], None),
        # It rose and went: no level, unless it took more than an hour.
        ([(0.60, 120), (0.80, 40), (0.60, 120)], None),
        ([(0.60, 120), (0.80, 60), (0.60, 120)], None),
        ([(0.60, 120), (0.80, 125), (0.60, 65)], (0.80, 0.60)),
        ([(0.80, 60), (0.60, 240)], None),
        # A small fall is not worth a draft.
        ([(0.64, 90), (0.61, 120)], None),
        # Changes every few minutes are no level.
        ([(0.75, 4), (0.45, 4)] * 30, None),
    ],
)  # fmt: skip
def test_the_last_half_hour_is_compared_with_the_best(
    levels: Sequence[tuple[float, float]], expected: tuple[float, float] | None
) -> None:
    found = Traffic(1).course(*levels)
    assert found == (None if expected is None else pytest.approx(expected, abs=0.03))


def test_a_level_of_a_day_ago_is_forgotten() -> None:
    traffic = Traffic(2)
    traffic.send(0.64, 3 * HALF_HOUR)
    traffic.send(0.51, (NUM_KEPT - 3) * HALF_HOUR)
    assert traffic.half_hours.fall is not None
    traffic.send(0.51, 2 * HALF_HOUR)
    assert traffic.half_hours.fall is None


@pytest.mark.parametrize(
    ("spread", "per_minute", "session"), [(0.2, 4.0, 1), (0.3, 20.0, 1), (0.3, 20.0, 5)]
)
def test_chance_makes_no_fall(spread: float, per_minute: float, session: int) -> None:
    """Ten servers for two days each; requests of one session resemble each other."""
    for seed in range(10):
        traffic = Traffic(seed, spread=spread, per_minute=per_minute)
        for _ in range(96):
            traffic.send(0.6, HALF_HOUR, session=session)
            assert traffic.half_hours.fall is None


def test_a_fall_by_a_tenth_lasts_however_much_requests_differ() -> None:
    """By 0.1, where requests differ by 0.29."""
    traffic = Traffic(3, spread=0.29, per_minute=60.0)
    traffic.send(0.6, 3 * HALF_HOUR)
    traffic.send(0.5, 2 * HALF_HOUR)
    for _ in range(20):
        traffic.send(0.5, HALF_HOUR)
        assert traffic.half_hours.fall is not None


def test_a_pause_counts_as_a_minute_and_a_half_hour_has_a_hundred_requests() -> None:
    traffic = Traffic(4, per_minute=0.1)  # one every ten minutes, each of which counts as one
    traffic.send(0.6, 990.0)
    assert traffic.half_hours.num_ended == 0
    traffic.send(0.6, 10.0)
    assert traffic.half_hours.num_ended == 1
    slow = Traffic(4, per_minute=2.0)
    slow.send(0.6, 49.5)
    assert slow.half_hours.num_ended == 0
    slow.send(0.6, 0.5)
    assert slow.half_hours.num_ended == 1

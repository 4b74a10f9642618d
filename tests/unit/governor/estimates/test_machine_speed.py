"""The common factor of all durations, from durations over their expectations."""

from __future__ import annotations

import random

import pytest

from paceline.governor.estimates.machine_speed import MachineSpeed


def after(*ratios: float) -> float:
    speed = MachineSpeed()
    for ratio in ratios:
        speed.add(ratio)
    return speed.factor


def test_a_machine_of_half_the_speed_is_known_after_four_steps() -> None:
    """Three steps of twice the duration change nothing, the fourth changes it at once."""
    assert after(1.0, 1.0, 2.0, 2.0, 2.0) == 1.0
    assert after(1.0, 1.0, 2.0, 2.0, 2.0, 2.0) == pytest.approx(2.0)


def test_a_machine_that_recovers_is_known_after_four_steps() -> None:
    assert after(*[2.0] * 4, *[1.0] * 4) == pytest.approx(1.0)


def test_stalls_are_not_a_slow_machine() -> None:
    """Every other step takes ten times as long; the ones between do not."""
    assert after(*[10.0, 1.0] * 50) == 1.0


def test_deviations_of_both_signs_confirm_nothing() -> None:
    assert after(*[2.0, 0.5] * 50) == 1.0


def test_only_steps_that_fit_are_reported_as_fitting() -> None:
    speed = MachineSpeed()
    assert [speed.add(ratio) for ratio in (1.0, 1.1, 2.0, 2.0, 2.0, 2.0, 2.0)] == [
        True,
        True,
        False,
        False,
        False,
        True,
        True,
    ]


def test_a_slow_drift_is_followed() -> None:
    """Half a percent per step for 60 steps, with 3 % noise."""
    draw = random.Random(0)
    drifting = [1.005**step * draw.lognormvariate(0.0, 0.03) for step in range(60)]
    assert after(*drifting) == pytest.approx(1.005**60, rel=0.05)


def test_noise_leaves_it_near_one() -> None:
    draw = random.Random(1)
    speed = MachineSpeed()
    for _ in range(2000):
        speed.add(draw.lognormvariate(0.0, 0.03))
        assert speed.factor == pytest.approx(1.0, rel=0.06)


def test_steps_of_a_noisy_machine_are_not_stalls() -> None:
    """20 % noise: its standard deviation is learned, and all but a few steps fit."""
    draw = random.Random(0)
    speed = MachineSpeed()
    for _ in range(200):
        speed.add(draw.lognormvariate(0.0, 0.2))
    assert speed.noise == pytest.approx(0.2, rel=0.2)
    fits = [speed.add(draw.lognormvariate(0.0, 0.2)) for _ in range(400)]
    assert fits.count(True) >= 390


def test_noise_is_at_least_that_of_a_quiet_machine() -> None:
    speed = MachineSpeed()
    for _ in range(200):
        speed.add(1.0)
    assert speed.noise == 0.05

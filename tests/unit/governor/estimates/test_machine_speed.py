"""The common factor of all durations, from durations over their expectations."""

from __future__ import annotations

import copy
import math
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


def test_a_machine_that_recovers_from_a_small_slowdown_is_known_after_four_steps() -> None:
    assert after(*[1.3] * 4, *[1.0] * 3) == pytest.approx(1.3)
    assert after(*[1.3] * 4, *[1.0] * 4) == pytest.approx(1.0)


def test_the_first_step_at_the_old_speed_ends_a_disturbance() -> None:
    assert after(*[4.0] * 9, 1.0) == 1.0
    assert after(*[4.0] * 9, 1.1) == pytest.approx(1.1**0.25)
    assert after(*[4.0] * 9, 1.5) != pytest.approx(1.0, rel=0.5)


def test_the_old_speed_is_that_before_the_disturbance() -> None:
    """A machine that became slower by 30 % for good, and then by four for a while."""
    assert after(*[1.3] * 4, *[5.2] * 9, 1.3) == pytest.approx(1.3)


def test_nothing_is_learned_in_a_disturbance() -> None:
    speed = MachineSpeed()
    reports = [speed.add(4.0) for _ in range(30)]
    assert reports == [False] * 30
    assert speed.is_disturbed
    assert not speed.is_settled
    assert speed.factor == pytest.approx(4.0)
    assert speed.add(1.0)
    assert not speed.is_disturbed


def test_a_disturbance_is_followed() -> None:
    """A quarter of each deviation, of at most a factor of e."""
    assert after(*[2.0] * 4, 4.0) == pytest.approx(2.0 * 2.0**0.25)
    assert after(*[2.0] * 4, 200.0) == pytest.approx(2.0 * math.e**0.25)
    assert after(*[8.0] * 4, 1.4) == pytest.approx(8.0 * math.e**-0.25)


def test_after_128_steps_it_is_the_new_speed() -> None:
    speed = MachineSpeed()
    for _ in range(3 + 128):
        speed.add(4.0)
    assert speed.is_disturbed
    speed.add(4.0)
    assert not speed.is_disturbed
    assert speed.factor == pytest.approx(4.0)
    assert speed.add(4.0)
    assert not speed.is_settled


@pytest.mark.parametrize(("ratio", "is_over"), [(0.5, True), (1.34, True), (1.36, False)])
def test_a_glance_at_the_old_speed_ends_a_disturbance(ratio: float, is_over: bool) -> None:
    speed = MachineSpeed()
    for _ in range(6):
        speed.add(4.0)
    speed.glance(ratio)
    assert speed.is_disturbed is not is_over
    assert speed.factor == pytest.approx(1.0 if is_over else 4.0)


def test_without_a_witness_a_disturbance_is_over_after_32_steps() -> None:
    """Steps of known shapes in between begin the count again."""
    speed = MachineSpeed()
    for _ in range(6):
        speed.add(4.0)
    for num_glances in (31, 31, 32):
        assert speed.is_disturbed
        for _ in range(num_glances):
            speed.glance(9.0)
        if num_glances == 31:
            speed.add(4.0)
    assert not speed.is_disturbed
    assert speed.factor == 1.0


def test_a_glance_says_nothing_without_a_disturbance() -> None:
    speed = MachineSpeed()
    for ratio in (0.1, 1.0, 10.0) * 8:
        speed.glance(ratio)
    assert speed.factor == 1.0
    assert not speed.is_disturbed


def test_stalls_are_not_a_slow_machine() -> None:
    """Every other step takes ten times as long; the ones between do not."""
    assert after(*[10.0, 1.0] * 50) == 1.0


def test_deviations_of_both_signs_confirm_nothing() -> None:
    assert after(*[2.0, 0.5] * 50) == 1.0


def test_only_steps_that_fit_are_reported_as_fitting() -> None:
    speed = MachineSpeed()
    assert [speed.add(ratio) for ratio in (1.0, 1.1, 1.3, 1.3, 1.3, 1.3, 1.3)] == [
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
    """20 % noise: once its size is learned, all but a few steps fit."""
    draw = random.Random(0)
    speed = MachineSpeed()
    for _ in range(200):
        speed.add(draw.lognormvariate(0.0, 0.2))
    fits = [speed.add(draw.lognormvariate(0.0, 0.2)) for _ in range(400)]
    assert fits.count(True) >= 390


def test_a_quarter_of_a_small_deviation_is_learned() -> None:
    """In logarithms: 10 % slower once is a factor of 1.1^(1/4)."""
    assert after(1.1) == pytest.approx(1.1**0.25)
    assert after(1 / 1.1) == pytest.approx(1.1**-0.25)


@pytest.mark.parametrize(("log_ratio", "fits"), [(0.149, True), (0.151, False), (-0.151, False)])
def test_a_deviation_of_more_than_fifteen_percent_is_large(log_ratio: float, fits: bool) -> None:
    assert MachineSpeed().add(math.exp(log_ratio)) is fits


def test_the_median_of_four_large_deviations_is_taken() -> None:
    """Of 2, 2, 4 and 8 it lies between 2 and 4."""
    assert after(8.0, 2.0, 4.0, 2.0) == pytest.approx(math.sqrt(8.0))


def test_after_a_change_the_next_one_needs_four_steps_again() -> None:
    assert after(*[1.3] * 4, *[1.7] * 3) == pytest.approx(1.3)
    assert after(*[1.3] * 4, *[1.7] * 4) == pytest.approx(1.7)


@pytest.mark.parametrize(("log_ratio", "counted"), [(0.1, 0.1), (-0.1, 0.1), (2.0, 0.15)])
def test_a_fiftieth_of_a_deviation_is_learned_as_noise(log_ratio: float, counted: float) -> None:
    """A large one counts as 0.15. The mean deviation of normal noise is sqrt(2 / pi) of it."""
    speed = MachineSpeed()
    speed.add(math.exp(log_ratio))
    assert speed.noise == pytest.approx(0.98 * 0.05 + 0.02 * counted * math.sqrt(math.pi / 2))


@pytest.mark.parametrize(
    ("deviation", "limit"), [(0.02, 0.15), (0.064, 3 * 0.064 * math.sqrt(math.pi / 2)), (0.3, 0.5)]
)
def test_large_is_three_standard_deviations_from_15_to_50_percent(
    deviation: float, limit: float
) -> None:
    speed = MachineSpeed()
    for step in range(2000):
        speed.add(speed.factor * math.exp(deviation * (-1) ** step))
    assert copy.deepcopy(speed).add(speed.factor * math.exp(0.99 * limit))
    assert not copy.deepcopy(speed).add(speed.factor * math.exp(1.01 * limit))


def test_it_is_settled_after_sixteen_steps_that_fit() -> None:
    speed = MachineSpeed()
    settled = [speed.add(1.0) and speed.is_settled for _ in range(16)]
    assert settled == [False] * 15 + [True]
    speed.add(2.0)
    assert not speed.is_settled

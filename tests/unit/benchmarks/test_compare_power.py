"""benchmarks/compare_power.py replays the noise of a recording, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.compare_power import Noise, load_noise, steps_in_order


def run_of(arm: str, position: int, ms: list[float], repeat: int = 0) -> dict[str, Any]:
    return {
        "repeat": repeat,
        "place": 0,
        "phase": "p",
        "arm": arm,
        "position": position,
        "steps": {"ms": ms, "planned": [0] * len(ms), "prompt_tokens": [9] + [0] * (len(ms) - 1)},
    }


def test_steps_come_in_the_order_of_the_machine() -> None:
    """The first step of each run computes a prompt. Two slices: half of each run in turn."""
    runs = [run_of("none", 1, [99, 10, 20]), run_of("K=2", 0, [99, 5, 5]), run_of("new", 2, [9, 9])]
    document = {"plan": {"slices": 2}, "runs": runs}
    assert list(steps_in_order(document)) == [(5, 5), (10, 15), (5, 5), (20, 15)]


def test_a_slow_repeat_remains_in_the_noise() -> None:
    """The usual duration is the median over repeats, so the second repeat is twice as slow."""
    runs = [run_of("none", 0, [99, 10, 10, 10]), run_of("none", 0, [99, 20, 20], repeat=1)]
    found = list(steps_in_order({"plan": {"slices": 1}, "runs": runs}))
    assert [actual / usual for actual, usual in found] == [1, 1, 1, 2, 2]


def test_work_takes_the_recorded_time_and_the_recording_repeats() -> None:
    """1 s of work takes 1 s, then 1 s of work takes 2 s; then all over again."""
    noise = Noise(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0]))
    assert noise.finish_s(0.0, 1.0) == pytest.approx(1.0)
    assert noise.finish_s(0.5, 1.0) == pytest.approx(2.0)
    assert noise.finish_s(2.0, 1.0) == pytest.approx(3.5)
    assert noise.finish_s(3.5, 3.0) == pytest.approx(8.0)


def test_recordings_follow_one_another() -> None:
    document = {"plan": {"slices": 1}, "runs": [run_of("none", 0, [99, 1000, 1000])]}
    assert load_noise([document, document]).time_s[-1] == pytest.approx(4.0)

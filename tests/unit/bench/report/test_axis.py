"""Axes place values linearly and have few round ticks."""

from __future__ import annotations

import pytest

from paceline.workbench.bench.report.axis import Axis, padded, round_ticks


def test_values_are_placed_linearly_also_upside_down() -> None:
    assert Axis(0, 10, 100, 200).place(2.5) == 125
    assert Axis(0, 10, 200, 100).place(2.5) == 175


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 9.3, [0, 2, 4, 6, 8]),
        (0, 1234, [0, 200, 400, 600, 800, 1000, 1200]),
        (-4.2, 3.1, [-4, -2, 0, 2]),
        (0, 0.013, [0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == ticks


def test_padding_keeps_a_zero_end() -> None:
    assert padded([10.0, 20.0], with_zero=True, padding=0.1) == (0.0, 22.0)
    assert padded([-10.0, 10.0], with_zero=True, padding=0.1) == (-12.0, 12.0)
    assert padded([5.0], with_zero=False, padding=0.1) == (4.5, 5.5)

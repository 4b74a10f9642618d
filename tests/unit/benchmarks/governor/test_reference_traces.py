"""The reference results: every arm, and figures that follow from the rates of the phases."""

from __future__ import annotations

import pytest

from benchmarks.governor.reference_traces import Cell, run_cell
from paceline.foundation.shifting_trace import find_trace


def test_a_cell_has_every_arm_and_fractions_of_the_best_length_of_each_phase() -> None:
    cell = run_cell(Cell("easy-hard-easy", "cpu-twin", seed=0, time_scale=0.03))
    assert cell["sha256"] == find_trace("easy-hard-easy").sha256
    arms = cell["arms"]
    held = [f"K={length}" for length in range(9)]
    assert list(arms) == ["none", *held, "table", "threshold", "latency", "goodput"]
    phases = ("easy", "hard", "easy again")
    oracle = {phase: max(arms[arm]["phases"][phase] for arm in held) for phase in phases}
    floor = {phase: max(rate, arms["none"]["phases"][phase]) for phase, rate in oracle.items()}
    for arm in arms.values():
        fractions = [arm["phases"][phase] / oracle[phase] for phase in phases]
        assert arm["mean_phase_fraction"] == pytest.approx(sum(fractions) / 3)
        lowest = min(arm["phases"][phase] / floor[phase] for phase in phases)
        assert arm["worst_phase_fraction"] == pytest.approx(lowest)


def test_equal_cells_give_equal_results() -> None:
    cell = Cell("easy-hard-easy", "cpu-twin", seed=1, time_scale=0.01)
    assert run_cell(cell) == run_cell(cell)

"""The check of `plan replay`: its machines, and what it makes of its cells."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.planner.check_replay import SITES, Site, load_site, summarise


def cell(machine: str, seed: int, error: float, half_width: float = 5.0) -> dict[str, Any]:
    """A prediction of 100 tokens/s."""
    return {
        "machine": machine,
        "seed": seed,
        "predicted": 100.0,
        "low": 100.0 - half_width,
        "high": 100.0 + half_width,
        "error": error,
        "covered": abs(error) <= half_width / 100.0,
    }


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.machine)
def test_every_machine_runs_the_lengths_that_are_held_out(site: Site) -> None:
    machine, graph_sizes = load_site(site)
    assert set(site.lengths) <= set(machine.lengths)
    assert bool(graph_sizes) == (machine.captured_lengths is not None)


def test_the_errors_of_a_scenario_count_as_one() -> None:
    """Two scenarios with mean errors of 1 and 3 %: 2 % with a standard error of 1 %."""
    cells = [cell("a", 0, 0.01), cell("a", 1, 0.02), cell("a", 1, 0.04)]
    summary = summarise(cells)
    assert summary["num_scenarios"] == 2
    assert summary["mean_error"] == pytest.approx(0.02)
    assert summary["standard_error"] == pytest.approx(0.01)
    assert summary["median_error"] == pytest.approx(0.02)
    assert summary["median_half_width"] == pytest.approx(0.05)
    assert summary["passed"]


def test_an_interval_that_covers_fewer_than_nine_of_ten_fails() -> None:
    """Nine of ten pass; eight of ten do not, though every error is small."""
    covered, missed = cell("a", 0, 0.01), cell("b", 0, 0.03, half_width=2.0)
    assert summarise([covered] * 9 + [missed])["passed"]
    failed = summarise([covered] * 8 + [missed] * 2)
    assert not failed["passed"]
    assert failed["by_machine"]["b"]["covered"] == 0.0

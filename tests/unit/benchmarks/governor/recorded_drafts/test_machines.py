"""Modelled machines, the table that a calibration of them would measure, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.governor.recorded_drafts.machines import (
    MACHINES,
    MeasuredNoise,
    build_machine,
    cost_table,
)

SIZES, LENGTHS = (1, 4, 16, 32), (0, 1, 2, 4, 8)


def test_a_step_of_the_twin_is_the_sum_of_its_parts() -> None:
    """4 requests, 8 tokens verified, 2 drafted each, in milliseconds: 45.6 + 4 * 2.185 = 54.34;
    judging 3.96 and 8 tokens 14.2; passes 3.96 + 3.714 and 8 tokens drafted 3.112."""
    machine = build_machine("cpu-twin")
    assert machine.step_s(4, 0, 0) == pytest.approx(0.05434)
    assert machine.step_s(4, 8, 2) == pytest.approx(0.05434 + 0.01816 + 0.010786)


def test_a_rest_costs_the_draft_model_its_missed_tokens() -> None:
    """20 us each on the twin; a draft model that runs at length 0 misses none and costs there."""
    twin, gpu = build_machine("cpu-twin"), build_machine("7b-h200")
    assert twin.step_s(1, 0, 1, catch_up_tokens=100) - twin.step_s(1, 0, 1) == pytest.approx(0.002)
    assert twin.step_s(1, 0, 1) > twin.step_s(1, 0, 0)
    assert gpu.step_s(1, 0, 1) == gpu.step_s(1, 0, 0)


@pytest.mark.parametrize("name", MACHINES)
def test_a_calibrated_table_gives_the_machine_s_time_at_its_entries(name: str) -> None:
    machine = build_machine(name)
    table = cost_table(machine, SIZES, LENGTHS)
    for size in SIZES:
        for length in LENGTHS:
            found = table.step_s(size, verified_tokens=size * length, draft_length=length)
            assert found == pytest.approx(machine.step_s(size, size * length, length))


def test_errors_of_a_table_change_what_verifying_and_drafting_add() -> None:
    machine = build_machine("cpu-twin")
    true = cost_table(machine, SIZES, LENGTHS)
    wrong = cost_table(machine, SIZES, LENGTHS, verify_error=0.2, draft_error=-0.2)
    for row, wrong_row in zip(true.verify_s, wrong.verify_s, strict=True):
        assert wrong_row[0] == pytest.approx(row[0])
        assert wrong_row[4] - wrong_row[0] == pytest.approx(1.2 * (row[4] - row[0]))
    assert np.array(wrong.draft_s) == pytest.approx(0.8 * np.array(true.draft_s))


def test_noise_of_a_table_is_independent_and_repeats_with_its_seed() -> None:
    machine = build_machine("cpu-twin")
    true = np.array(cost_table(machine, SIZES, LENGTHS).verify_s)
    tables = [cost_table(machine, SIZES, LENGTHS, cell_noise=0.1, seed=seed) for seed in (0, 0, 1)]
    assert tables[0] == tables[1] != tables[2]
    factors = np.log(np.array(tables[0].verify_s) / true)
    assert len(set(factors.ravel().round(9).tolist())) == factors.size
    assert 0.05 < factors.std() < 0.2


def test_measured_noise_has_the_spread_of_the_recorded_steps() -> None:
    """Of 20,000 logarithms: sigma sqrt(0.08^2 + 0.10^2) = 0.128 without stalls; the median is near
    0, as the walk has had time to return."""
    noise = MeasuredNoise(0)
    logs = np.log([noise.measure(0.05) / 0.05 for _ in range(20_000)])
    assert abs(np.median(logs)) < 0.03
    robust = 1.4826 * np.median(np.abs(logs - np.median(logs)))
    assert robust == pytest.approx(math.hypot(0.08, 0.10), rel=0.15)


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of cpu-twin"):
        build_machine("tpu")

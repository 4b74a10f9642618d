"""The default policy on a machine that takes twice as long for everything, for a while.

The best length stays the same. Before, the lengths in use became slow in the cost model and the
others stayed fast: it left the best length when the machine slowed down, and again when it
recovered (6 % of the next 200 steps at the best length in the worst case).
"""

from __future__ import annotations

import pytest

from paceline.testing.policy_simulator.evaluation.summary import Judge
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.traffic.phases import DraftTruth
from unit.policy_simulator.evaluation.steady_phases import (
    HARD,
    MIDDLING,
    PREDICTABLE,
    is_between,
    run_goodput,
)


@pytest.mark.parametrize("truth", [MIDDLING, HARD], ids=["middling", "hard"])
def test_a_slow_minute_on_a_cpu_changes_nothing(truth: DraftTruth) -> None:
    """The lengths of the minute, and of the 10 s after it, reach 98.5 % of the best one's rate."""
    profile = load_profile("cpu-twin")
    slow = Disturbance(slow_factor=2.0, slow_from_s=20.0, slow_for_s=60.0)
    log = run_goodput(
        profile.machine, profile.middle_concurrency, truth, duration_s=90.0, disturbance=slow
    )
    fractions, _ = Judge(profile.machine).steady_fractions(log)
    assert fractions[is_between(log, 20.0, 80.0)].mean() >= 0.985
    assert fractions[is_between(log, 80.0, 90.0)].mean() >= 0.985


@pytest.mark.parametrize("chunk", [None, 16], ids=["whole prompts", "chunks"])
@pytest.mark.parametrize("truth", [MIDDLING, PREDICTABLE], ids=["middling", "predictable"])
def test_some_hundred_slow_steps_on_a_gpu_change_nothing(
    truth: DraftTruth, chunk: int | None
) -> None:
    """A few seconds are harder than a minute: a wrong length has less time to be found out."""
    profile = load_profile("7b-h200")
    machine = profile.machine if chunk is None else profile.machine.with_prefill_chunks(chunk)
    slow = Disturbance(slow_factor=2.0, slow_from_s=3.0, slow_for_s=4.0)
    log = run_goodput(machine, profile.middle_concurrency, truth, duration_s=10.0, disturbance=slow)
    fractions, _ = Judge(machine).steady_fractions(log)
    before = fractions[is_between(log, 1.0, 3.0)].mean()
    assert fractions[is_between(log, 3.0, 7.0)].mean() >= before - 0.01
    assert fractions[is_between(log, 7.0, 10.0)].mean() >= before - 0.01
    assert before >= 0.97

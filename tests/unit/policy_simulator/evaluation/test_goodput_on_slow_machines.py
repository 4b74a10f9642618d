"""The default policy on a machine that takes twice as long for everything, for a while.

The best length stays the same. Before, the lengths in use became slow in the cost model and the
others stayed fast: it left the best length when the machine slowed down, and again when it
recovered (6 % of the next 200 steps at the best length in the worst case).
"""

from __future__ import annotations

import numpy as np
import pytest

from paceline.policy_simulator.machines.machine import Disturbance
from paceline.policy_simulator.machines.profiles import load_profile
from paceline.policy_simulator.traffic.phases import DraftTruth
from unit.policy_simulator.evaluation.steady_phases import (
    HARD,
    MIDDLING,
    PREDICTABLE,
    is_between,
    is_near_best,
    run_goodput,
)


@pytest.mark.parametrize("truth", [MIDDLING, HARD], ids=["middling", "hard"])
def test_the_length_stays_for_a_slow_minute_on_a_cpu(truth: DraftTruth) -> None:
    """At least 95 % of the steps of the minute, and of the 10 s after it, are near the best; a
    mean of three runs, because the 10 s have a hundred steps."""
    profile = load_profile("cpu-twin")
    slow = Disturbance(slow_factor=2.0, slow_from_s=20.0, slow_for_s=60.0)
    shares = []
    for seed in (1, 2, 3):
        log = run_goodput(
            profile.machine, profile.middle_concurrency, truth, duration_s=90.0, disturbance=slow,
            seed=seed,
        )  # fmt: skip
        near = is_near_best(profile.machine, log)
        during, after = is_between(log, 20.0, 80.0), is_between(log, 80.0, 90.0)
        shares.append((near[during].mean(), near[after].mean()))
    assert np.mean(shares, axis=0) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("chunk", [None, 16], ids=["whole prompts", "chunks"])
@pytest.mark.parametrize("truth", [MIDDLING, PREDICTABLE], ids=["middling", "predictable"])
def test_the_length_stays_for_some_hundred_slow_steps_on_a_gpu(
    truth: DraftTruth, chunk: int | None
) -> None:
    """A few seconds are harder than a minute: a wrong length has less time to be found out."""
    profile = load_profile("7b-h200")
    machine = profile.machine if chunk is None else profile.machine.with_prefill_chunks(chunk)
    slow = Disturbance(slow_factor=2.0, slow_from_s=3.0, slow_for_s=4.0)
    log = run_goodput(machine, profile.middle_concurrency, truth, duration_s=10.0, disturbance=slow)
    near = is_near_best(machine, log)
    assert near[is_between(log, 3.0, 7.0)].mean() >= 0.94
    assert near[is_between(log, 7.0, 10.0)].mean() >= 0.95

"""The governor where other work takes the machine's time, and where first steps are slow.

The lengths used are compared with the best ones by the truth, not by the time that steps took: the
time that others take is nobody's fault.
"""

from __future__ import annotations

import numpy as np
import pytest

from paceline.testing.policy_simulator.evaluation.arms import governed_policy, run_trace
from paceline.testing.policy_simulator.evaluation.summary import Judge
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)
from unit.policy_simulator.evaluation.steady_phases import HARD, MIDDLING, PREDICTABLE

BUSY = Disturbance(busy_factor=4.0, busy_every_s=2.0, busy_for_s=0.5)
COLD = Disturbance(first_use_s=0.05)
BOTH = Disturbance(busy_factor=4.0, busy_every_s=2.0, busy_for_s=0.5, first_use_s=0.05)
LOADS = [(1, PREDICTABLE), (1, HARD), (32, HARD), (8, MIDDLING), (8, PREDICTABLE), (1, MIDDLING)]


def phase(num_requests: int, truth: DraftTruth) -> Phase:
    kind = TrafficClass("text", Lengths(8, 16), Lengths(64, 384), truth)
    return Phase("", ClosedLoop(num_requests, hangs_up=True), (kind,), num_steps=300)


@pytest.mark.parametrize(
    "disturbance",
    [
        pytest.param(BUSY, marks=pytest.mark.slow, id="busy"),
        pytest.param(COLD, marks=pytest.mark.slow, id="cold"),
        pytest.param(BOTH, id="both"),
    ],
)
def test_most_of_the_best_rate_is_reached(disturbance: Disturbance) -> None:
    """Six loads of 300 steps each, six runs: of the best rate, the mean and the lowest."""
    machine = load_profile("cpu-twin").machine
    trace = [phase(*load) for load in LOADS]
    reached = []
    for seed in range(6):
        policy = governed_policy("goodput", machine, [])
        logs = run_trace(machine, policy, trace, seed=seed, disturbance=disturbance)
        judged = [Judge(machine).steady_fractions(log) for log in logs]
        reached.append([np.average(shares, weights=seconds) for shares, seconds in judged])
    assert np.mean(reached) >= 0.965
    assert np.min(reached) >= 0.80

"""The default policy on the GPU profiles, against the best held length of each phase.

What it lost there before: a cost model that took a draft pass for draft tokens (255 requests: 90 ms
predicted for a step of 16), and in mixed traffic lengths that only the easy requests were worth.
"""

from __future__ import annotations

import pytest

from paceline.policy_simulator.evaluation.compare import compare_arms
from paceline.policy_simulator.evaluation.traces import build_trace
from paceline.policy_simulator.machines.profiles import load_profile


@pytest.mark.parametrize("name", ["7b-h200", "72b-tp8-h100"])
def test_mixed_traffic(name: str) -> None:
    profile = load_profile(name)
    trace = build_trace("mixed", profile)
    found = compare_arms(profile.machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.mean_phase_fraction >= 0.97


@pytest.mark.parametrize("has_verdicts", [False, True], ids=["without", "with"])
def test_shifting_traffic(has_verdicts: bool) -> None:
    """It adapts within 50 steps with first-token verdicts; probes alone cannot do that."""
    profile = load_profile("7b-h200")
    machine = profile.machine.reporting_first_tokens() if has_verdicts else profile.machine
    trace = build_trace("shifting", profile)
    found = compare_arms(machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.slowest_to_adapt is not None
    assert found.slowest_to_adapt <= (50 if has_verdicts else 175)

"""The default policy on the GPU profiles, against the best held length of each phase.

What it lost there before: a cost model that took a draft pass for draft tokens (255 requests: 90 ms
predicted for a step of 16), and in mixed traffic lengths that only the easy requests were worth.
"""

from __future__ import annotations

import pytest

from paceline.testing.policy_simulator.evaluation.arms import governed_policy, run_trace
from paceline.testing.policy_simulator.evaluation.compare import compare_arms
from paceline.testing.policy_simulator.evaluation.summary import Judge
from paceline.testing.policy_simulator.evaluation.traces import build_trace
from paceline.testing.policy_simulator.machines.profiles import load_profile


@pytest.mark.parametrize("name", [pytest.param("7b-h200", marks=pytest.mark.slow), "72b-tp8-h100"])
def test_mixed_traffic(name: str) -> None:
    profile = load_profile(name)
    trace = build_trace("mixed", profile)
    found = compare_arms(profile.machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.mean_phase_fraction >= 0.97


def test_it_adapts_to_shifting_traffic() -> None:
    """By the steady rates of its lengths; at 256 requests one probe in 175 steps is affordable."""
    profile = load_profile("7b-h200")
    policy = governed_policy("goodput", profile.machine, [])
    logs = run_trace(profile.machine, policy, build_trace("shifting", profile), seed=0)
    phases = Judge(profile.machine).summarize("goodput", logs).phases
    assert len(phases) == 8
    fractions = [phase.steady_fraction or 0.0 for phase in phases]
    assert sum(fractions) / len(fractions) >= 0.97
    for phase in phases[1:]:
        assert phase.steps_to_adapt is not None, phase.name
        assert phase.steps_to_adapt <= 175, phase.name


@pytest.mark.slow
def test_shifting_traffic() -> None:
    """By the tokens of every held length on the same requests."""
    profile = load_profile("7b-h200")
    trace = build_trace("shifting", profile)
    found = compare_arms(profile.machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.slowest_to_adapt is not None
    assert found.slowest_to_adapt <= 175

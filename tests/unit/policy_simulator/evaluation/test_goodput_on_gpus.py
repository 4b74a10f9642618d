"""The default policy on the GPU profiles, against the best held length of each phase.

What it lost there before: a cost model that took a draft pass for draft tokens (255 requests: 90 ms
predicted for a step of 16), and in mixed traffic lengths that only the easy requests were worth.
"""

from __future__ import annotations

import pytest

from paceline.policy_simulator.evaluation.arms import governed_policy, run_trace
from paceline.policy_simulator.evaluation.compare import compare_arms
from paceline.policy_simulator.evaluation.summary import Judge
from paceline.policy_simulator.evaluation.traces import build_trace
from paceline.policy_simulator.machines.profiles import load_profile


@pytest.mark.parametrize("name", [pytest.param("7b-h200", marks=pytest.mark.slow), "72b-tp8-h100"])
def test_mixed_traffic(name: str) -> None:
    profile = load_profile(name)
    trace = build_trace("mixed", profile)
    found = compare_arms(profile.machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.mean_phase_fraction >= 0.97


@pytest.mark.parametrize(
    "has_verdicts",
    [pytest.param(False, marks=pytest.mark.slow, id="without"), pytest.param(True, id="with")],
)
def test_it_adapts_to_shifting_traffic(has_verdicts: bool) -> None:
    """By the steady rates of its lengths: within 50 steps with first-token verdicts; probes alone
    cannot do that."""
    profile = load_profile("7b-h200")
    machine = profile.machine.reporting_first_tokens() if has_verdicts else profile.machine
    policy = governed_policy("goodput", machine, [])
    logs = run_trace(machine, policy, build_trace("shifting", profile), seed=0)
    phases = Judge(machine).summarize("goodput", logs).phases
    assert len(phases) == 8
    fractions = [phase.steady_fraction or 0.0 for phase in phases]
    assert sum(fractions) / len(fractions) >= 0.97
    longest = 50 if has_verdicts else 175
    for phase in phases[1:]:
        assert phase.steps_to_adapt is not None, phase.name
        assert phase.steps_to_adapt <= longest, phase.name


@pytest.mark.slow
@pytest.mark.parametrize("has_verdicts", [False, True], ids=["without", "with"])
def test_shifting_traffic(has_verdicts: bool) -> None:
    """By the tokens of every held length on the same requests."""
    profile = load_profile("7b-h200")
    machine = profile.machine.reporting_first_tokens() if has_verdicts else profile.machine
    trace = build_trace("shifting", profile)
    found = compare_arms(machine, trace, governed=("goodput",)).arm("goodput")
    assert found.fraction_of_oracle >= 0.97
    assert found.slowest_to_adapt is not None
    assert found.slowest_to_adapt <= (50 if has_verdicts else 175)

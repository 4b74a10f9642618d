"""The oracle against computed rates, and against brute force in the simulator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.oracle import best_rate, steady_rates
from paceline.testing.policy_simulator.evaluation.traces import build_trace
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.machines.profiles import load_profile
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop, Phase
from unit.policy_simulator.setups import QUIET, Recorder, linear, machine, steps, text


def test_steady_rates() -> None:
    """Four endless requests, hazard 0.5: 1, 1.5, 1.75 tokens a step each.

    10 + 4 ms, then 4 draft tokens and a pass more for each length: 14, 25, 36 ms.
    """
    endless = text(0.5, output=(10**9, 10**9))
    rates = steady_rates(steps(1, 4, endless), 4, machine(max_draft_length=2))
    assert [rate.step_s for rate in rates] == pytest.approx([0.014, 0.025, 0.036])
    assert [rate.tokens_per_step for rate in rates] == pytest.approx([4.0, 6.0, 7.0])
    assert best_rate(steps(1, 4, endless), 4, machine(max_draft_length=2)).draft_length == 0


def test_a_match_that_is_left_behind_counts_less() -> None:
    """Start 0.1, stay 0.9: half of the tokens are matched, but a step from a match is longer.

    All accepted at length 1: two tokens on a match persists with 0.5 + 0.5 * 0.8^2 = 0.82, so a
    step begins matched with 0.1 / (0.1 + 0.18) = 0.357, and yields 1.357 tokens.
    """
    endless = text(1.0, match=(0.1, 0.9), output=(10**9, 10**9))
    rate = steady_rates(steps(1, 1, endless), 1, machine("ngram"))[1]
    assert rate.tokens_per_step == pytest.approx(1 + 0.1 / 0.28)


def test_hard_requests_stay_longer_and_so_weigh_more() -> None:
    """Half certain, half hopeless, 9 tokens each, length 1: stays of 1 + 4 and 1 + 8 steps.

    One request at a time: 18 tokens in 14 steps. (Certain: 8 tokens left at 2 a step.)
    """
    kinds = (text(1.0, output=(9, 9)), text(0.0, output=(9, 9), name="hard"))
    rate = steady_rates(steps(1, 1, *kinds), 1, machine())[1]
    # The closed form adds half a step of overshoot to the certain ones, whose output need not
    # fit whole steps: 4.25 steps instead of 4.
    assert rate.tokens_per_step == pytest.approx(18 / 14.25)


def test_no_requests_have_no_rate() -> None:
    with pytest.raises(ValueError, match="num_requests is 0"):
        steady_rates(steps(1, 1, text(0.5)), 0, machine())


CPU = linear(base_s=0.025, request_s=0.001, token_s=0.0008, draft_pass_s=0.0018)


@pytest.mark.parametrize(
    ("on", "phase"),
    [
        (machine(cost=CPU), steps(1500, 8, text(0.8, 0.7, prompt=(20, 60)))),
        (
            machine(cost=CPU),
            steps(1500, 16, text(0.8), text(0.4, output=(60, 120), name="hard")),
        ),
        (
            machine(cost=CPU),
            steps(800, 48, text(0.6, 0.7, spread=1.0, output=(20, 60))),
        ),
        (
            machine("ngram", cost=CPU),
            steps(1500, 16, text(0.9, match=(0.1, 0.9), prompt=(20, 60))),
        ),
        (
            machine(cost=CPU).with_prefill_chunks(16),
            steps(1500, 16, text(0.7, prompt=(20, 120))),
        ),
        (
            machine("ngram_gpu", cost=CPU),
            steps(1500, 16, text(0.9, match=(0.1, 0.9), prompt=(20, 60))),
        ),
    ],
    ids=["plain", "two classes", "spread", "ngram", "chunks", "ngram on a GPU"],
)
@pytest.mark.parametrize("length", [1, 6])
def test_the_closed_form_is_what_brute_force_finds(on: Machine, phase: Phase, length: int) -> None:
    """Within 3 % of the simulated steps, the noise of hundreds of requests."""
    assert isinstance(phase.load, ClosedLoop)
    expected = steady_rates(phase, phase.load.first, on)[length]
    engine = SimulatedEngine(on, Recorder(length), seed=1, disturbance=QUIET)
    engine.run(replace(phase, num_steps=200))
    assert engine.run(phase).tokens_per_s == pytest.approx(expected.tokens_per_s, rel=0.03)


@pytest.mark.parametrize("name", ["cpu-twin", "72b-tp8-h100"])
def test_the_best_length_is_that_of_a_sweep(name: str) -> None:
    """What the oracle calls best is within 2 % of the best of a simulated sweep."""
    profile = load_profile(name)
    phase = replace(build_trace("steady", profile)[0], duration_s=None, num_steps=300)
    realised = []
    for length in profile.machine.lengths:
        engine = SimulatedEngine(profile.machine, Recorder(length), disturbance=QUIET)
        engine.run(replace(phase, num_steps=100))
        realised.append(engine.run(phase).tokens_per_s)
    best = best_rate(phase, profile.middle_concurrency, profile.machine).draft_length
    assert 0 < best < profile.machine.max_draft_length
    assert realised[profile.machine.lengths.index(best)] >= 0.98 * max(realised)

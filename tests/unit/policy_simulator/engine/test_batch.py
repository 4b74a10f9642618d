"""What is accepted and offered follows the truth that was set."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.runtime.governor.values import StepSample
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.traffic.phases import (
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)
from unit.policy_simulator.setups import QUIET, Recorder, machine, steps, text


def samples(on: Machine, phase: Phase, length: int) -> list[StepSample]:
    policy = Recorder(length)
    SimulatedEngine(on, policy, seed=5, disturbance=QUIET).run(phase)
    return policy.samples


def test_acceptance_follows_the_hazards() -> None:
    """Hazards 0.8, 0.5, then 0.9 for good: each position within three standard deviations."""
    phase = steps(400, 16, text(0.8, 0.5, 0.9, prompt=(2, 2)))
    accepted = [a for sample in samples(machine(), phase, 5) for a in sample.accepted]
    reached = len(accepted)
    for position, hazard in enumerate((0.8, 0.5, 0.9, 0.9, 0.9), start=1):
        passed = sum(a >= position for a in accepted)
        deviation = math.sqrt(hazard * (1 - hazard) / reached)
        assert passed / reached == pytest.approx(hazard, abs=3 * deviation)
        reached = passed


def test_requests_differ_by_their_spread() -> None:
    """One hazard of 0.5, spread 2: requests from hopeless to sure, where spread 0 shows one kind.

    A request's accepted fraction at length 1 has the standard deviation of sigmoid(2 z), 0.30
    (z normal), beside the noise of its 400 verdicts, 0.025.
    """
    deviations = []
    for spread in (0.0, 2.0):
        phase = steps(400, 64, text(0.5, spread=spread, output=(10**6, 10**6), prompt=(2, 2)))
        accepted = np.asarray([s.accepted for s in samples(machine(), phase, 1) if s.drafted])
        deviations.append(float(accepted.mean(axis=0).std()))
    assert deviations[0] == pytest.approx(0.025, abs=0.01)
    assert deviations[1] == pytest.approx(0.30, abs=0.05)


def test_an_ngram_drafter_offers_in_runs() -> None:
    """A match begins with 0.1 and lasts with 0.9: half of the tokens are matched.

    Nothing being accepted, a step is a token: half of the drafts are offered, each whole, and an
    offer follows an offer with 0.9.
    """
    endless = text(0.0, match=(0.1, 0.9), output=(10**6, 10**6), prompt=(2, 2))
    shown = samples(machine("ngram"), steps(1500, 16, endless), 4)
    drafted = np.asarray([sample.drafted for sample in shown if sample.drafted])
    assert set(np.unique(drafted)) == {0, 4}
    offered = drafted > 0
    assert offered.mean() == pytest.approx(0.5, abs=0.03)
    assert offered[1:][offered[:-1]].mean() == pytest.approx(0.9, abs=0.01)


def test_a_certain_match_that_carries_far_is_left_by_jumping() -> None:
    """Accepted drafts jump over the rest of a match: with 8 accepted, 9 tokens on, the chain of
    start 0.1 and stay 0.9 is matched with 0.5 + 0.5 * 0.8^9 = 0.567."""
    endless = text(1.0, match=(0.1, 0.9), output=(10**6, 10**6), prompt=(2, 2))
    shown = samples(machine("ngram"), steps(1500, 16, endless), 8)
    offered = np.asarray([sample.drafted for sample in shown if sample.drafted]) > 0
    assert offered[1:][offered[:-1]].mean() == pytest.approx(0.567, abs=0.03)


def test_classes_arrive_by_weight() -> None:
    """Three to one, one token each: three quarters of the requests are of the first class."""
    kinds = (
        text(0.0, prompt=(2, 2), output=(1, 1), weight=3.0),
        text(0.0, prompt=(102, 102), output=(1, 1), name="long"),
    )
    engine = SimulatedEngine(machine(token_budget=4096), Recorder(0), disturbance=QUIET)
    log = engine.run(steps(200, 16, *kinds))
    num_long = (log.prefill_tokens.sum() - 3200) / 100
    assert num_long / 3200 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"hazards": ()}, "at least one"),
        ({"hazards": (1.2,)}, "must be a probability"),
        ({"hazards": (0.5,), "spread": -1.0}, "must not be negative"),
        ({"hazards": (0.5,), "match_start": 2.0}, "must be probabilities"),
        ({"hazards": (0.5,), "match_start": 0.0, "match_stay": 1.0}, "no steady state"),
    ],
)
def test_impossible_truths_are_refused(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        DraftTruth(**arguments)  # type: ignore[arg-type]


def test_impossible_phases_are_refused() -> None:
    """Lengths, weights, names and durations are checked where they are given."""
    kind = text(0.5)
    with pytest.raises(ValueError, match=r"lengths 5\.\.4"):
        Lengths(5, 4)
    with pytest.raises(ValueError, match="must be positive"):
        TrafficClass("a", Lengths(1, 1), Lengths(1, 1), DraftTruth((0.5,)), weight=0.0)
    with pytest.raises(ValueError, match="each may occur once"):
        steps(1, 1, kind, kind)
    with pytest.raises(ValueError, match="duration_s or num_steps"):
        Phase("both", steps(1, 1, kind).load, (kind,), duration_s=1.0, num_steps=1)

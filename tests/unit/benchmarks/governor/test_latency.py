"""The figures of the latency benchmark, on steps with known times."""

from __future__ import annotations

import pytest

from benchmarks.governor.latency import best_held, describe, ratios
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TrafficClass,
)


def test_gaps_within_a_chunk_count_as_zero() -> None:
    """Drafts of 3, all accepted, steps of 10 ms: answers of 9 tokens come as 1 + 4 + 4, in 20 ms
    after the first; of 8 gaps two are 10 ms, so P99 is 10 and the time per token 2.5."""
    cost = LinearCost(0.010, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    machine = Machine(cost, 3, 4, 64, "stateless", is_async=False)
    kind = TrafficClass("text", Lengths(1, 1), Lengths(9, 9), DraftTruth((1.0,)))
    phase = Phase("steps", ClosedLoop(1), (kind,), num_steps=30)
    engine = SimulatedEngine(machine, HeldLength(3), disturbance=Disturbance(noise_fraction=0.0))
    found = describe(engine.run(phase))
    assert found["num_answers"] == 10
    assert found["tpot_p99_ms"] == pytest.approx(2.5)
    assert found["gap_p99_ms"] == pytest.approx(10.0)
    assert found["mean_draft_length"] == 3.0


def test_policies_are_compared_with_the_best_fixed_length() -> None:
    """5 ms is that of the best fixed length; the policies' own figures are no reference."""
    figures = {"K=0": 6.0, "K=1": 5.0, "goodput": 7.5, "latency": 4.0}
    cell = {"arms": {name: {"tpot_p99_ms": ms} for name, ms in figures.items()}}
    assert best_held(cell["arms"], "tpot_p99_ms") == "K=1"
    assert ratios(cell) == {"goodput": 1.5, "latency": 0.8}

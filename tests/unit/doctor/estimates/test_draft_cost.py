"""The estimated cost of drafts, against engines whose cost is known."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.estimates.draft_cost import slowdown_of
from paceline.operations.doctor.estimates.drafting import drafting_of
from paceline.operations.doctor.estimates.gain import best_length, gain_of
from paceline.operations.doctor.estimates.interval import Interval
from unit.doctor.simulated import SimulatedEngine, observe_vllm

# Step time in ms without load, of a draft token, of a token in the batch; measured or derived
# figures of policy_simulator/machines/profiles.
MACHINES = {
    "cpu-twin": (25.6, 1.95, 0.85),
    "cpu-small": (5.1, 1.44, 0.3),
    "n-gram on a gpu": (10.0, 0.01, 0.03),
}


def _engine(machine: str, length: int) -> SimulatedEngine:
    base, draft, token = MACHINES[machine]
    reached = tuple(0.5 ** (position + 1) for position in range(length))
    return SimulatedEngine(base_ms=base, draft_ms=draft, token_ms=token, reached=reached)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("length", [1, 4, 8])
def test_the_interval_holds_the_true_slowdown_and_gain(machine: str, length: int) -> None:
    engine = _engine(machine, length)
    drafting = drafting_of(observe_vllm(engine).engines["engine 0"])
    slowdown = slowdown_of(drafting)
    assert slowdown.from_slope
    load = round(drafting.num_requests)
    truth = engine.step_ms(load) / engine.step_ms(load, 0)
    assert slowdown.factor.low < truth < slowdown.factor.high
    gain = gain_of(drafting, slowdown)
    assert gain.low < engine.gain(load) < gain.high


def test_the_figures_of_drafts_are_means_over_steps() -> None:
    engine = SimulatedEngine(loads=(4,) * 10)
    drafting = drafting_of(observe_vllm(engine).engines["engine 0"])
    assert drafting.num_requests == pytest.approx(4)
    assert 1e3 * drafting.step_s == pytest.approx(engine.step_ms(4))
    assert drafting.draft_length == pytest.approx(3)
    assert drafting.accepted_per_draft == pytest.approx(1.94)
    assert drafting.accepted_fraction == pytest.approx(1.94 / 3)
    assert drafting.tokens_per_s == pytest.approx(1e3 * 4 * 2.94 / engine.step_ms(4))
    # E[A^2] = 0.8 + 3 * 0.64 + 5 * 0.5 = 5.22, the variance 5.22 - 1.94^2 = 1.4564
    assert drafting.accepted_error == pytest.approx(2 * (1.4564 / drafting.drafts) ** 0.5)


def test_a_steady_load_leaves_the_widest_interval() -> None:
    drafting = drafting_of(observe_vllm(SimulatedEngine(loads=(4,) * 15)).engines["engine 0"])
    slowdown = slowdown_of(drafting)
    assert not slowdown.from_slope
    assert slowdown.factor == Interval(1.015, 4.0)


def test_the_best_length_of_a_known_engine_is_within_the_lengths_found() -> None:
    engine = _engine("cpu-small", 8)
    drafting = drafting_of(observe_vllm(engine).engines["engine 0"])
    best = best_length(drafting, slowdown_of(drafting))
    rates = {
        length: (1 + sum(engine.reached[:length])) / engine.step_ms(4, length)
        for length in range(9)
    }
    truth = max(rates, key=rates.__getitem__)
    assert best.shortest <= truth <= best.longest < 8


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (2.0, 1.0), (-1.0, 1.0)])
def test_an_interval_is_positive_and_ordered(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="no positive interval"):
        Interval(low, high)


def test_the_middle_of_an_interval_is_geometric() -> None:
    assert Interval(2.0, 8.0).middle == pytest.approx(4.0)

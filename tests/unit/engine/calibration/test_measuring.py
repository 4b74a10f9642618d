"""The measurement finds the known costs of an engine, and keeps to its budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.measuring import Measurement, measure
from paceline.runtime.engine.calibration.plan import EngineLimits, plan_for
from unit.engine.calibration.known_engine import LIMITS, DisturbedEngine, KnownEngine


def measured(
    engine: KnownEngine, *, budget_s: float = 100.0, limits: EngineLimits = LIMITS
) -> Measurement:
    plan = plan_for(limits)
    assert plan is not None
    return measure(engine, plan, budget_s=budget_s, clock=engine.clock)


def check_known_costs(table: CostTable) -> None:
    """n ms, and n ms per token that is verified or drafted."""
    for n, verify, draft in zip(table.sizes, table.verify_s, table.draft_s, strict=True):
        assert verify == pytest.approx([1e-3 * n * (1 + width) for width in table.lengths])
        assert draft == pytest.approx([1e-3 * n * length for length in table.lengths])


def test_the_table_has_the_engines_costs() -> None:
    found = measured(KnownEngine())
    table = found.samples.table()
    assert table.sizes == (1, 2, 4, 8, 16)
    assert table.lengths == (0, 1, 2, 4, 8)
    check_known_costs(table)
    assert table.context_tokens == 256
    assert table.context_s == pytest.approx(1e-6)
    assert table.draft_context_s == pytest.approx(0.5e-6)
    assert found.dropped_sizes == ()
    # Nine kinds of five sizes, and two at the long context.
    assert found.samples.num_kinds == 47


def test_other_work_on_the_machine_does_not_show() -> None:
    """Delays of 50 ms, which is three times the longest step of the smallest sizes."""
    check_known_costs(measured(DisturbedEngine()).samples.table())


def test_the_budget_is_kept_and_the_largest_sizes_are_dropped() -> None:
    """At 20 ms per token and request, the coarser plan takes 1, 4 and 16 times 660 ms per round.

    After the rounds of 1 and 4 requests no time is left for the cost of context.
    """
    engine = KnownEngine(times=20.0)
    found = measured(engine, budget_s=10.0)
    assert found.samples.table().sizes == (1, 4)
    assert found.dropped_sizes == (16,)
    assert found.seconds == engine.now_s
    assert engine.now_s < 10.0
    assert found.samples.table().context_s == 0.0


def test_the_smallest_size_is_measured_whatever_the_budget() -> None:
    found = measured(KnownEngine(), budget_s=0.0)
    assert found.samples.table().sizes == (1,)
    assert found.dropped_sizes == (4, 16)
    assert found.samples.num_kinds == 7


def test_a_drafter_with_a_fixed_length_costs_the_same_in_every_step() -> None:
    """Its 8 ms per request are a part of each step, and no length adds to them."""
    table = measured(KnownEngine(), limits=replace(LIMITS, follows_length=False)).samples.table()
    assert table.verify_s[0] == pytest.approx([0.009, 0.010, 0.011, 0.013, 0.017])
    assert set(table.draft_s) == {(0.0,) * 5}
    assert table.draft_context_s == 0.0

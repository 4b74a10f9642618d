"""The tuned table, and the order of the arms."""

from __future__ import annotations

import pytest

from benchmarks.governor.trace.arms import ARMS, order_of, tune_table
from benchmarks.governor.trace.phases import TracePhase
from paceline.governor.policies.schedule import check_schedule
from unit.benchmarks.governor.documents import run_of

PHASES = [
    TracePhase("a", "code", 0.0, 1),
    TracePhase("b", "code", 1.0, 32),
    TracePhase("c", "predictable", 0.0, 8),
    TracePhase("d", "predictable", 0.0, 1),
]


def test_a_range_takes_the_length_with_most_tokens_over_all_its_phases() -> None:
    """At load 1: K=4 has 100 + 10, K=0 has 60 + 60. Ranges meet at sqrt(1·8) = 2, sqrt(8·32) = 16.

    At load 8 both have 30: the shorter one is taken.
    """
    runs = [run_of("K=4", 0, [100, 10, 30, 10]), run_of("K=0", 0, [60, 20, 30, 60])]
    table = tune_table(runs, PHASES, 64)
    assert table == [[1, 2, 0], [3, 16, 0], [17, 64, 0]]
    runs.append(run_of("K=4", 1, [120, 10, 31, 10]))
    assert tune_table(runs, PHASES, 64) == [[1, 2, 0], [3, 16, 4], [17, 64, 0]]
    check_schedule([tuple(entry) for entry in table])


def test_a_table_needs_runs() -> None:
    with pytest.raises(ValueError, match="there are none"):
        tune_table([], PHASES, 64)


def test_every_repeat_has_all_arms_in_an_order_of_its_own() -> None:
    orders = [order_of(list(ARMS), repeat) for repeat in range(5)]
    assert all(sorted(order) == sorted(ARMS) for order in orders)
    assert len({tuple(order) for order in orders}) == 5
    assert order_of(list(ARMS), 3) == orders[3]

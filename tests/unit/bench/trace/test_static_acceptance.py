"""One set of rates for a phase, and the phases that one server can run."""

from __future__ import annotations

import pytest

from paceline.foundation.shifting_trace import TracePhase
from paceline.workbench.bench.trace.static_acceptance import static_rates, stretches
from unit.bench.trace.runs import closed, make_trace, scripted

EASY, HARD = scripted("easy", 0.9, 0.8), scripted("hard", 0.2, output=24)
BOTH = TracePhase("both", (("easy", 1.0), ("hard", 1.0)), concurrency=1, duration_s=1.0)


def test_a_phase_of_one_category_has_its_survival() -> None:
    trace = make_trace([EASY, HARD], [closed("a", 1, "easy", 1.0)])
    assert static_rates(trace, trace.phases[0], 2) == pytest.approx((0.9, 0.72))
    assert static_rates(trace, trace.phases[0], 0) == ()


def test_a_mixed_phase_has_the_mean_over_all_drafts() -> None:
    """At length 1 an easy answer of 12 tokens makes 12 / 1.9 drafts, a hard one 24 / 1.2."""
    trace = make_trace([EASY, HARD], [BOTH])
    easy, hard = 12 / 1.9, 24 / 1.2
    expected = (easy * 0.9 + hard * 0.2) / (easy + hard)
    assert static_rates(trace, BOTH, 1) == pytest.approx((expected,))


def test_phases_in_a_row_with_equal_rates_share_a_server() -> None:
    phases = [
        closed("a", 1, "easy", 1.0),
        closed("b", 8, "easy", 1.0),
        closed("c", 8, "hard", 1.0),
        closed("d", 1, "easy", 1.0),
    ]
    trace = make_trace([EASY, HARD], phases)
    found = list(stretches(trace, 1))
    assert [(rates, [n for n, _ in together]) for rates, together in found] == [
        ((0.9,), [0, 1]),
        ((0.2,), [2]),
        ((0.9,), [3]),
    ]


def test_without_drafts_one_server_runs_the_whole_trace() -> None:
    trace = make_trace([EASY, HARD], [closed("a", 1, "easy", 1.0), BOTH])
    assert [len(together) for _, together in stretches(trace, 0)] == [2]

"""Counts of drafts, and the recent rates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.engine.scheduler.draft_counters import DraftCounters
from unit.engine.scheduler.controllers import make_controller, make_sample


def test_drafts_are_counted_as_vllm_does() -> None:
    """Drafts of 3 and 2 tokens with 2 and 0 accepted."""
    counters = DraftCounters(8)
    counters.count((3, 2), (2, 0))
    state = counters.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (2, 5)
    assert state["accepted_tokens_total"] == 2
    assert state["accepted_per_position_total"] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_recent_rates_are_absent_until_measured() -> None:
    """None before the first draft; then 3 of 6 accepted, and 5 tokens in 50 ms."""
    counters = DraftCounters(8)
    assert counters.state()["accepted_fraction"] is None
    assert counters.state()["goodput_tokens_per_s"] is None
    counters.observe(make_sample())
    assert counters.state()["accepted_fraction"] == pytest.approx(0.5)
    assert counters.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_recent_goodput_leaves_out_prefill_steps() -> None:
    counters = DraftCounters(8)
    counters.observe(make_sample())
    counters.observe(replace(make_sample(), prefill_tokens=500, duration_s=0.5))
    assert counters.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_positions_beyond_the_maximum_are_not_counted_by_position() -> None:
    """A drafter that ignores the maximum: three accepted at two positions."""
    counters = DraftCounters(2)
    counters.count((4, 4), (3, 1))
    assert counters.state()["accepted_per_position_total"] == [2, 1]
    assert counters.state()["accepted_tokens_total"] == 4


def test_counts_add_up_over_steps() -> None:
    counters = DraftCounters(2)
    for _ in range(3):
        counters.count((2, 2), (2, 1))
    state = counters.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (6, 12)
    assert (state["accepted_tokens_total"], state["accepted_per_position_total"]) == (9, [6, 3])


def test_recent_rates_remember_fifty_steps() -> None:
    """All accepted for long, then nothing for 50 steps: 36 % of the weight is on the old ones."""
    counters = DraftCounters(8)
    for _ in range(500):
        counters.observe(make_sample((3, 3), (3, 3)))
    for _ in range(50):
        counters.observe(replace(make_sample((3, 3), (0, 0)), duration_s=0.1))
    state = counters.state()
    assert state["accepted_fraction"] == pytest.approx(0.364, abs=0.01)
    # Tokens 8 and 2 a step, seconds 0.05 and 0.1.
    tokens, seconds = 0.364 * 8 + 0.636 * 2, 0.364 * 0.05 + 0.636 * 0.1
    assert state["goodput_tokens_per_s"] == pytest.approx(tokens / seconds, rel=0.02)


def test_a_fraction_of_long_ago_is_not_shown() -> None:
    """One drafted token counts half after 34 steps without drafts."""
    counters = DraftCounters(8)
    counters.observe(make_sample((1,), (1,)))
    fractions = []
    for _ in range(40):
        counters.observe(make_sample((), ()))
        fractions.append(counters.state()["accepted_fraction"])
    assert fractions[:34] == [1.0] * 34
    assert fractions[34:] == [None] * 6


@pytest.mark.parametrize("changes", [{"is_clean": False}, {"duration_s": None}])
def test_recent_goodput_leaves_out_steps_without_a_time_of_their_own(changes: Any) -> None:
    counters = DraftCounters(8)
    counters.observe(make_sample())
    counters.observe(replace(make_sample((9, 9), (9, 9)), **changes))
    assert counters.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_a_step_of_no_duration_gives_no_goodput() -> None:
    counters = DraftCounters(8)
    counters.observe(replace(make_sample(), duration_s=0.0))
    assert counters.state()["goodput_tokens_per_s"] is None


def test_the_controllers_state_has_the_counters() -> None:
    """The controller counts what the scheduler passes, and its state has every key."""
    controller = make_controller()
    controller.count_drafts((3, 2), (2, 0))
    controller.observe(make_sample())
    state = controller.state()
    assert state["accepted_tokens_total"] == 2
    assert state["goodput_tokens_per_s"] == pytest.approx(100.0)
    assert DraftCounters(8).state().keys() <= state.keys()

"""Counts of drafts, and the recent rates."""

from __future__ import annotations

from dataclasses import replace

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


def test_the_controllers_state_has_the_counters() -> None:
    """The controller counts what the scheduler passes, and its state has every key."""
    controller = make_controller()
    controller.count_drafts((3, 2), (2, 0))
    controller.observe(make_sample())
    state = controller.state()
    assert state["accepted_tokens_total"] == 2
    assert state["goodput_tokens_per_s"] == pytest.approx(100.0)
    assert DraftCounters(8).state().keys() <= state.keys()

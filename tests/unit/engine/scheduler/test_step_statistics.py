"""The counters of an engine's steps, partly through the controller that has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings
from paceline.runtime.engine.scheduler.step_statistics import StepStatistics
from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.controllers import (
    LOAD,
    Planned,
    failing,
    make_controller,
    make_sample,
)


def test_the_reason_of_the_last_change_is_kept() -> None:
    """Neither the first plan nor a probe nor a plan of the same length is a change."""
    plans = [
        DraftPlan(4, "first"),
        DraftPlan(2, "probe", is_exploring=True),
        DraftPlan(4, "same"),
        DraftPlan(0, "change"),
        DraftPlan(0, "same again"),
    ]
    controller = DraftLengthController(
        PluginSettings(),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: Planned(*plans),
    )
    reasons, settled = [], []
    for _ in plans:
        controller.plan(LOAD)
        reasons.append(controller.state()["last_change_reason"])
        settled.append(controller.state()["settled_length"])
    assert reasons == [None, None, None, "change", "change"]
    assert settled == [4, 4, 4, 0, 0]


def test_time_is_counted_by_its_use() -> None:
    """Steps of 50 ms: two off, one exploring, two on."""
    plans = [DraftPlan(length, "planned") for length in (0, 0, 3, 3)]
    plans.insert(2, DraftPlan(2, "planned", is_exploring=True))
    plans[-1] = replace(plans[-1], expected_tokens_per_s=80.0)
    controller = DraftLengthController(
        PluginSettings(),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: Planned(*plans),
    )
    for _ in range(5):
        length = controller.plan(LOAD).draft_length
        controller.observe(replace(make_sample(), draft_length=length))
    state = controller.state()
    assert state["draft_length_changes_total"] == 1
    assert state["seconds_total"] == pytest.approx(0.25)
    assert state["off_seconds_total"] == pytest.approx(0.10)
    assert state["exploring_seconds_total"] == pytest.approx(0.05)
    assert state["safe_plan_seconds_total"] == 0.0
    assert state["expected_goodput_tokens_per_s"] == 80.0


def test_time_under_the_safe_plan_is_counted() -> None:
    controller = failing(RuntimeError("planted"))
    controller.plan(LOAD)
    controller.observe(make_sample())
    assert controller.state()["safe_plan_seconds_total"] == pytest.approx(0.05)


def planning(*plans: DraftPlan) -> DraftLengthController:
    return DraftLengthController(
        PluginSettings(),
        EngineAbilities(8, "draft_model"),
        make_policy=lambda name, **_: Planned(*plans),
    )


def test_a_new_engine_has_counted_nothing() -> None:
    state = planning().state()
    totals = {key: value for key, value in state.items() if key.endswith("_seconds_total")}
    assert set(totals.values()) == {0.0}
    assert state["draft_length_changes_total"] == 0
    assert state["expected_goodput_tokens_per_s"] is None


def test_neither_the_first_length_nor_a_probe_is_a_change() -> None:
    """3, a probe at 1, 3 again, and then 5: one change."""
    lengths = (3, 1, 3, 5)
    controller = planning(
        *(DraftPlan(length, "planned", is_exploring=length == 1) for length in lengths)
    )
    changes = []
    for _ in lengths:
        controller.plan(LOAD)
        changes.append(controller.state()["draft_length_changes_total"])
    assert changes == [0, 0, 0, 1]


def test_a_step_without_a_time_adds_none() -> None:
    controller = planning(DraftPlan(0, "planned"))
    controller.plan(LOAD)
    controller.observe(replace(make_sample(), draft_length=0, duration_s=None))
    state = controller.state()
    assert state["seconds_total"] == state["off_seconds_total"] == 0.0


def test_time_before_the_first_plan_is_no_exploration() -> None:
    controller = planning()
    controller.observe(make_sample())
    state = controller.state()
    assert (state["seconds_total"], state["exploring_seconds_total"]) == (0.05, 0.0)
    assert (state["off_seconds_total"], state["safe_plan_seconds_total"]) == (0.0, 0.0)


def test_time_adds_up_by_its_use() -> None:
    """Three steps, each off and exploring."""
    controller = planning(*[DraftPlan(0, "planned", is_exploring=True)] * 3)
    for _ in range(3):
        controller.plan(LOAD)
        controller.observe(replace(make_sample(), draft_length=0))
    state = controller.state()
    for use in ("", "off_", "exploring_"):
        assert state[f"{use}seconds_total"] == pytest.approx(0.15)


def test_drafts_are_counted_as_vllm_does() -> None:
    """Drafts of 3 and 2 tokens with 2 and 0 accepted."""
    statistics = StepStatistics(8)
    statistics.count_drafts((3, 2), (2, 0))
    state = statistics.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (2, 5)
    assert state["accepted_tokens_total"] == 2
    assert state["accepted_per_position_total"] == [1, 1, 0, 0, 0, 0, 0, 0]


def test_recent_rates_are_absent_until_measured() -> None:
    """None before the first draft; then 3 of 6 accepted, and 5 tokens in 50 ms."""
    statistics = StepStatistics(8)
    assert statistics.state()["accepted_fraction"] is None
    assert statistics.state()["goodput_tokens_per_s"] is None
    statistics.observe(make_sample())
    assert statistics.state()["accepted_fraction"] == pytest.approx(0.5)
    assert statistics.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_recent_goodput_leaves_out_prefill_steps() -> None:
    statistics = StepStatistics(8)
    statistics.observe(make_sample())
    statistics.observe(replace(make_sample(), prefill_tokens=500, duration_s=0.5))
    assert statistics.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_positions_beyond_the_maximum_are_not_counted_by_position() -> None:
    """A drafter that ignores the maximum: three accepted at two positions."""
    statistics = StepStatistics(2)
    statistics.count_drafts((4, 4), (3, 1))
    assert statistics.state()["accepted_per_position_total"] == [2, 1]
    assert statistics.state()["accepted_tokens_total"] == 4


def test_counts_add_up_over_steps() -> None:
    statistics = StepStatistics(2)
    for _ in range(3):
        statistics.count_drafts((2, 2), (2, 1))
    state = statistics.state()
    assert (state["num_drafts_total"], state["drafted_tokens_total"]) == (6, 12)
    assert (state["accepted_tokens_total"], state["accepted_per_position_total"]) == (9, [6, 3])


def test_recent_rates_remember_fifty_steps() -> None:
    """All accepted for long, then nothing for 50 steps: 36 % of the weight is on the old ones."""
    statistics = StepStatistics(8)
    for _ in range(500):
        statistics.observe(make_sample((3, 3), (3, 3)))
    for _ in range(50):
        statistics.observe(replace(make_sample((3, 3), (0, 0)), duration_s=0.1))
    state = statistics.state()
    assert state["accepted_fraction"] == pytest.approx(0.364, abs=0.01)
    # Tokens 8 and 2 a step, seconds 0.05 and 0.1.
    tokens, seconds = 0.364 * 8 + 0.636 * 2, 0.364 * 0.05 + 0.636 * 0.1
    assert state["goodput_tokens_per_s"] == pytest.approx(tokens / seconds, rel=0.02)


def test_a_fraction_of_long_ago_is_not_shown() -> None:
    """One drafted token counts half after 34 steps without drafts."""
    statistics = StepStatistics(8)
    statistics.observe(make_sample((1,), (1,)))
    fractions = []
    for _ in range(40):
        statistics.observe(make_sample((), ()))
        fractions.append(statistics.state()["accepted_fraction"])
    assert fractions[:34] == [1.0] * 34
    assert fractions[34:] == [None] * 6


@pytest.mark.parametrize("changes", [{"is_clean": False}, {"duration_s": None}])
def test_recent_goodput_leaves_out_steps_without_a_time_of_their_own(changes: Any) -> None:
    statistics = StepStatistics(8)
    statistics.observe(make_sample())
    statistics.observe(replace(make_sample((9, 9), (9, 9)), **changes))
    assert statistics.state()["goodput_tokens_per_s"] == pytest.approx(100.0)


def test_a_step_of_no_duration_gives_no_goodput() -> None:
    statistics = StepStatistics(8)
    statistics.observe(replace(make_sample(), duration_s=0.0))
    assert statistics.state()["goodput_tokens_per_s"] is None


def test_the_controllers_state_has_the_statistics() -> None:
    """The controller counts what the scheduler passes, and its state has every key."""
    controller = make_controller()
    controller.count_drafts((3, 2), (2, 0))
    controller.observe(make_sample())
    state = controller.state()
    assert state["accepted_tokens_total"] == 2
    assert state["goodput_tokens_per_s"] == pytest.approx(100.0)
    assert StepStatistics(8).state().keys() <= state.keys()


TABLE = CostTable((1, 4), (0, 4), ((0.03, 0.05), (0.04, 0.06)), ((0.0, 0.0), (0.0, 0.0)))


def test_clean_steps_without_prompts_are_compared_with_the_table() -> None:
    """Three steps at length 3; one of them has a prompt, one follows a pause."""
    statistics = StepStatistics(8, TABLE)
    for changes in ({}, {"prefill_tokens": 5}, {"is_clean": False}):
        statistics.observe(replace(make_sample(), **changes))  # type: ignore[arg-type]
    state = statistics.state()
    assert state["length_steps"] == {"3": 3}
    assert state["measured_step_seconds"] == {"3": pytest.approx(0.05)}
    [table_s] = state["table_step_seconds"].values()
    assert state["step_slowdown"] == pytest.approx(0.05 / table_s)


def test_without_a_table_only_the_steps_are_counted() -> None:
    """A drafter that ignores the maximum counts at the maximum."""
    statistics = StepStatistics(2)
    for length in (0, 2, 9):
        statistics.observe(replace(make_sample(), draft_length=length))
    state = statistics.state()
    assert state["length_steps"] == {"0": 1, "2": 2}
    assert (state["measured_step_seconds"], state["table_step_seconds"]) == ({}, {})
    assert state["step_slowdown"] is None

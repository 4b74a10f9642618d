"""The counters and log lines of the telemetry, through the controller that owns it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.settings import PluginSettings
from paceline.governor.values import DraftPlan
from unit.engine.scheduler.controllers import LOAD, Planned, failing, make_sample


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
        max_draft_length=8,
        method="draft_model",
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
        max_draft_length=8,
        method="draft_model",
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


def test_changes_are_logged_with_reasons_at_a_limited_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The length changes at every step: a line at the first change, then one per 20 steps."""
    plans = [DraftPlan(step % 2, f"because of {step}") for step in range(42)]
    controller = DraftLengthController(
        PluginSettings(),
        max_draft_length=8,
        method="draft_model",
        make_policy=lambda name, **_: Planned(*plans),
    )
    caplog.set_level("INFO", logger="vllm.paceline.telemetry")
    for _ in plans:
        controller.plan(LOAD)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Governor: draft length 0 -> 1: because of 1 (changes since the last line: 1)",
        "Governor: draft length 0 -> 1: because of 21 (changes since the last line: 20)",
        "Governor: draft length 0 -> 1: because of 41 (changes since the last line: 20)",
    ]


def planning(*plans: DraftPlan) -> DraftLengthController:
    return DraftLengthController(
        PluginSettings(),
        max_draft_length=8,
        method="draft_model",
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

"""The counters and log lines of the telemetry, through the controller that owns it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.engine.scheduler.draft_length_controller import DraftLengthController
from paceline.engine.scheduler.settings import PluginSettings
from paceline.governor.values import DraftPlan, ReplayScores
from unit.engine.scheduler.controllers import LOAD, Planned, failing, make_sample


def test_time_is_counted_by_its_use() -> None:
    """Steps of 50 ms: two off, one exploring with a replay pass of 2 ms, two on."""
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
        report = ReplayScores((8,), (3,), 64, 0, 0.002) if length == 2 else None
        controller.observe(replace(make_sample(), draft_length=length, replay_scores=report))
    state = controller.state()
    assert state["draft_length_changes_total"] == 1
    assert state["seconds_total"] == pytest.approx(0.25)
    assert state["off_seconds_total"] == pytest.approx(0.10)
    assert state["exploring_seconds_total"] == pytest.approx(0.05)
    assert state["safe_plan_seconds_total"] == 0.0
    assert (state["hindsight_seconds_total"], state["hindsight_drafts_total"]) == (0.002, 1)
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

"""The state that the control channel and `/admin/governor` report."""

from __future__ import annotations

from paceline.engine.scheduler.governor_driver import GovernorDriver
from paceline.engine.scheduler.worker_probes import WorkerProbes
from unit.engine.scheduler.controllers import make_controller


def test_the_keys_of_the_state_are_those_that_operators_know() -> None:
    """A new key is added here; a key that is renamed or gone breaks who reads it."""
    driver = GovernorDriver(
        make_controller(),
        max_draft_length=8,
        trims_drafts=False,
        drafter_rests=False,
        probes=WorkerProbes(has_replay_scoring=False, first_tokens=None),
        sampler_fault=None,
        hooks={"before_schedule": "ok"},
    )
    state = driver.state()
    assert set(state) == {
        "policy",
        "draft_length",
        "ceiling",
        "max_draft_length",
        "method",
        "reason",
        "safe_plan",
        "drafted_tokens_total",
        "accepted_tokens_total",
        "num_drafts_total",
        "accepted_fraction",
        "accepted_per_position_total",
        "steps_total",
        "safe_plan_steps_total",
        "policy_errors_total",
        "goodput_tokens_per_s",
        "expected_goodput_tokens_per_s",
        "draft_length_changes_total",
        "seconds_total",
        "off_seconds_total",
        "exploring_seconds_total",
        "safe_plan_seconds_total",
        "hindsight_seconds_total",
        "hindsight_tokens_total",
        "hindsight_drafts_total",
        "sampled_speculation",
        "seams",
    }
    assert state["sampled_speculation"] == "on"
    assert state["seams"] == {"before_schedule": "ok"}

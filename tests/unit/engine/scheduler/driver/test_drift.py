"""The driver passes steps and requests to the watch for drift, and serves on when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.runtime.engine.drift.drift_watch import DriftWatch
from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    run_step,
)
from unit.engine.scheduler.driver.test_recording import run_step_without_requests


def drive(driver: Any, request: Request) -> None:
    """Eleven steps with drafts of 2 tokens, of which 1 is accepted; then the request ends."""
    scheduler = Scheduler(a=request)
    run_step(driver, scheduler, Output({"a": 1}))
    for _ in range(11):
        run_step(driver, scheduler, Output({"a": 3}, {"a": [1, 2]}), verified=[("a", 2, 1)])
    run_step_without_requests(driver, scheduler, Output({"a": 1}), request)


@pytest.mark.parametrize(
    ("temperature", "label", "category"),
    [(0.0, None, "greedy"), (0.7, None, "sampled"), (0.7, "code", "code")],
)
def test_acceptance_is_watched_by_category(
    temperature: float, label: str | None, category: str
) -> None:
    request = Request(temperature=temperature)
    assert request.sampling_params is not None
    request.sampling_params.extra_args = None if label is None else {"paceline_category": label}
    driver = make_driver(Recorder(DraftPlan(2, "planted")))
    drive(driver, request)
    categories = driver.state()["drift"]["categories"]
    assert list(categories) == [category]
    assert (categories[category]["requests"], categories[category]["acceptance"]) == (1, 1.0)


def test_an_error_in_the_watch_is_counted_and_serving_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(DriftWatch, "step_finished", fail)
    policy = Recorder(DraftPlan(2, "planted"))
    driver = make_driver(policy)
    drive(driver, Request())
    assert len(policy.samples) == 13
    assert driver.state()["policy_errors_total"] == 13

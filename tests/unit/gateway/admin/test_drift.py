"""A drift in an engine is shown on the admin port: an event and metrics by category."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from paceline.runtime.engine.drift.category_watch import FIRST_REFERENCE
from paceline.runtime.engine.scheduler.control_channel import ControlServer
from paceline.runtime.governor.values import DraftPlan
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text
from unit.engine.scheduler.driver.fakes import (
    Output,
    Recorder,
    Request,
    Scheduler,
    make_driver,
    run_step,
)
from unit.gateway.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRAFFIC = PassageTraffic(0.6, spread=0.05, contrast=0.1, output_tokens=30)
LENGTH = 3


def drifted_driver() -> object:
    """A governor's driver that has seen the acceptance of `code` fall by 0.4."""
    driver = make_driver(Recorder(DraftPlan(LENGTH, "planted")))
    random = np.random.default_rng(1)
    for traffic, num in ((TRAFFIC, FIRST_REFERENCE), (TRAFFIC.shifted(-0.4), 60)):
        for number, mean in enumerate(traffic.means(random, num)):
            request = Request()
            assert request.sampling_params is not None
            request.sampling_params.extra_args = {"paceline_category": "code"}
            name = f"{traffic.acceptance}-{number}"
            scheduler = Scheduler(**{name: request})
            run_step(driver, scheduler, Output({name: 1}))
            for _, accepted in draft_text(draw_text(traffic, mean, random), lambda: LENGTH):
                output = Output({name: LENGTH + 1}, {name: [1] * LENGTH})
                run_step(driver, scheduler, output, verified=[(name, LENGTH, accepted)])
            last = Output({name: 1})
            driver.before_schedule(scheduler)
            driver.before_step(scheduler, last)
            scheduler.requests = {}
            driver.after_step(scheduler, last)
    return driver


@asynccontextmanager
async def governed(served: Served) -> AsyncIterator[None]:
    """Give the gateway's replica a real control channel in front of a driver that has drifted."""
    path = served.engine.socket.with_name("drift.sock")
    server = ControlServer(str(path), drifted_driver())  # type: ignore[arg-type]
    served.source.current = [replace(served.source.current[0], control_socket=path)]
    try:
        yield
    finally:
        server.close()


async def test_a_drift_is_an_event_and_a_metric_by_category(served: Served) -> None:
    async with governed(served):
        state = (await served.admin.get("/admin/governor")).json()["replicas"]["r0"]
        (event,) = state["drift"]["events"]
        assert event["category"] == "code"
        assert event["acceptance_now"] < event["acceptance_before"]
        page = (await served.admin.get("/metrics")).text
    labels = '{category="code",replica="r0"}'
    assert f"paceline_draft_drift_events_total{labels} 1.0" in page
    lost = state["drift"]["categories"]["code"]["lost_tokens_per_s"]
    assert f"paceline_draft_drift_lost_tokens_per_second{labels} {lost}" in page
    assert lost > 0
    # The engine has run for a moment only.
    assert f"paceline_draft_drift_lasting_lost_fraction{labels} 0.0" in page
    assert f"paceline_draft_drift_acceptance_best_level{labels}" not in page
    assert f"paceline_draft_drift_acceptance{labels} 0." in page
    assert f"paceline_draft_drift_reference_acceptance{labels}" not in page

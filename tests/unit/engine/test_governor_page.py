"""The governor's metrics in a registry, and in the files of several API servers."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from paceline.foundation.servers.governor_metrics import state_of
from paceline.foundation.servers.metrics_page import parse_page
from paceline.runtime.engine.governor_page import GovernorPage

STATE: dict[str, Any] = {
    "policy": "goodput",
    "draft_length": 3,
    "steps_total": 10,
    "length_steps": {"0": 4, "3": 6},
    "accepted_fraction": 0.75,
}


def test_a_page_shows_the_newest_state() -> None:
    registry = CollectorRegistry()
    page = GovernorPage(registry)
    page.show(STATE)
    page.show({**STATE, "steps_total": 12, "policy": "off", "accepted_fraction": None})

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(
            f"paceline_governor_{name}", {"replica": "engine-0", **labels}
        )

    assert value("steps_total") == 12
    assert value("length_steps_total", draft_length="3") == 6
    assert value("policy_info", policy="off") == 1
    assert value("policy_info", policy="goodput") == 0
    assert value("safe_plan_steps_total") is None
    accepted = value("accepted_fraction")
    assert accepted is not None
    assert math.isnan(accepted)


def test_a_governor_that_does_not_answer_keeps_its_counters() -> None:
    registry = CollectorRegistry()
    page = GovernorPage(registry)
    for state in (STATE, {}, {**STATE, "steps_total": 15}):
        page.show(state)
    labels = {"replica": "engine-0"}
    assert registry.get_sample_value("paceline_governor_steps_total", labels) == 15


_PROCESS = """
import json, sys
from paceline.runtime.engine.governor_page import GovernorPage
page = GovernorPage()
for state in json.loads(sys.argv[1]):
    page.show(state)
"""


def test_several_api_servers_show_one_governor(tmp_path: Path) -> None:
    """In the multiprocess mode of the Prometheus client: one process writes, another that knows
    nothing of the governor answers the scrape."""
    states = [STATE, {**STATE, "steps_total": 12, "policy": "off", "draft_length": 0}]
    subprocess.run(
        [sys.executable, "-c", _PROCESS, json.dumps(states)],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        check=True,
        timeout=60,
    )
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]
    page = parse_page(generate_latest(registry).decode())
    found = state_of(lambda name: [(one.labels, one.value) for one in page.select(name)])
    assert found == {**STATE, "steps_total": 12, "policy": "off", "draft_length": 0}


@pytest.mark.parametrize("value", ["x", None, True])
def test_a_state_of_another_form_shows_nothing(value: object) -> None:
    registry = CollectorRegistry()
    GovernorPage(registry).show({"draft_length": value, "policy": 3, "length_steps": value})
    assert not [sample for family in registry.collect() for sample in family.samples]

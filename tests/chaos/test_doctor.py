"""`paceline doctor` on a real gateway: a local engine with a real governor, and remote replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from polling import wait_until

from chaos.gateway_process import HTTP
from chaos.monitoring.monitored_gateway import MonitoredGateway, running_gateway
from paceline.cli import main


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredGateway]:
    with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


def _diagnose(running: MonitoredGateway, folder: Path, *arguments: str) -> dict[str, Any]:
    file = folder / "diagnosis.json"
    url = running.gateway.admin_url
    result = CliRunner().invoke(main, ["doctor", url, "--json", str(file), *arguments])
    assert result.exit_code in (0, 1, 3), result.output
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["exit_code"] == result.exit_code
    return document


def _governor(running: MonitoredGateway) -> dict[str, Any]:
    answer = HTTP.get(f"{running.gateway.admin_url}/admin/governor").json()
    state: dict[str, Any] = answer["replicas"]["engine-0"]
    return state


def test_a_healthy_gateway_has_no_finding(running: MonitoredGateway, tmp_path: Path) -> None:
    document = _diagnose(running, tmp_path, "--seconds", "3")
    assert document["findings"] == []
    assert document["server"]["kind"] == "paceline"
    assert {"unavailable", "governor-failing", "draft-drift"} <= set(document["passed"])


def test_a_probe_restores_the_policy(running: MonitoredGateway, tmp_path: Path) -> None:
    """The mock engine's speed does not depend on drafts, so that a factor near 1 is measured."""
    arguments = ("--probe", "--data-url", running.gateway.url, "--seconds", "3")
    replicas = HTTP.get(f"{running.gateway.admin_url}/admin/replicas").json()["replicas"]
    model = next(one["model"] for one in replicas if one["name"] == "engine-0")
    document = _diagnose(running, tmp_path, *arguments, "--concurrency", "4", "--model", model)
    assert document["probe"]["gain_reason"] is None
    assert 0.3 < document["probe"]["gain"]["value"] < 3
    assert _governor(running)["policy"] == "goodput"


def test_drafts_that_are_rejected_at_a_fixed_length_are_found(
    running: MonitoredGateway, tmp_path: Path
) -> None:
    running.run_steps(acceptance=0.0, num_requests=16)
    running.patch("/admin/governor", {"draft_length": 4})
    wait_until(lambda: _governor(running)["draft_length"] == 4)
    document = _diagnose(running, tmp_path, "--seconds", "4")
    (finding,) = document["findings"]
    assert (finding["id"], finding["subject"]) == ("speculation-loses", "engine-0")
    assert finding["cost"]["basis"] == "estimated"


def test_requests_that_a_replica_fails_are_found(running: MonitoredGateway, tmp_path: Path) -> None:
    """The replica `broken` answers with errors, at first and then whenever its breaker tries it."""
    running.patch("/admin/governor", {"policy": "goodput"})
    running.fail_requests()
    document = _diagnose(running, tmp_path, "--seconds", "4")
    found = {finding["id"]: finding for finding in document["findings"]}
    assert found["requests-fail"]["cost"]["amount"] == pytest.approx(100)
    assert document["exit_code"] == 3

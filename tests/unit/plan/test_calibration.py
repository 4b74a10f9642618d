"""A probe of a real server sets the pace of the plan."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.demo import target_path
from paceline.testing.mock_vllm import spawn_mock_vllm
from unit.plan.planning import plan_json, run_plan

TPOT_MS = 4.0


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with spawn_mock_vllm("--tpot-ms", str(TPOT_MS), "--eos-every-tokens", "0") as server:
        yield server.url


def test_the_plan_takes_the_pace_of_the_server(server_url: str, tmp_path: Path) -> None:
    """The mock server never answers faster than its time per token; a client that reads the first
    chunks late finds it faster."""
    arguments = (str(target_path()), "--gpu", "cpu", "--draft", "none", "--prompt-tokens", "32",
                 "--output-tokens", "32")  # fmt: skip
    plan = plan_json(tmp_path, *arguments, "--calibrate", f"{server_url}/v1")
    calibration = plan["hardware"]["calibration"]
    assert calibration["num_requests"] == 8
    assert calibration["one_s"] * 1e3 >= 0.5 * TPOT_MS
    measured_ms = {1: calibration["one_s"] * 1e3, 8: calibration["many_s"] * 1e3}
    steps_ms = {row["num_requests"]: row["step_ms"] for row in plan["performance"]}
    assert steps_ms[1] == pytest.approx(measured_ms[1], rel=0.02)
    assert steps_ms[8] == pytest.approx(measured_ms[8], rel=0.25)
    assert any(text.startswith("calibrated:") for text in plan["assumptions"])


def test_a_server_that_does_not_answer_is_named() -> None:
    result = run_plan(str(target_path()), "--gpu", "cpu", "--calibrate", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "the server at http://127.0.0.1:9, given with --calibrate" in result.stderr


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_the_server_is_asked_without_the_proxy(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As on a machine in a company's network: all else goes through its proxy."""
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(urllib.request, "_opener", None)  # urlopen keeps its first environment
    arguments = (str(target_path()), "--gpu", "cpu", "--draft", "none", "--prompt-tokens", "32",
                 "--output-tokens", "32")  # fmt: skip
    plan = plan_json(tmp_path, *arguments, "--calibrate", server_url)
    assert plan["hardware"]["calibration"]["num_requests"] == 8

"""Without a workload, the prompts suit the served model, and the report says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.foundation.load.suited_workload import choose_workload
from paceline.foundation.named_models import BUNDLED_NAME
from paceline.testing.mock_vllm import spawn_mock_vllm


@pytest.mark.parametrize(
    ("model", "status", "workload"),
    [
        ("smollm2-135m-instruct", 200, "chat"),
        (BUNDLED_NAME, None, "mixed"),
        ("base-model", 400, "code"),
        ("base-model", 404, "code"),
        ("busy-model", 503, "chat"),
        ("silent-model", None, "chat"),
    ],
)
def test_the_workload_suits_the_model(model: str, status: int | None, workload: str) -> None:
    suited = choose_workload(model, status)
    assert suited.name == workload
    assert suited.reason


@pytest.mark.parametrize(
    ("model", "options", "workload"),
    [("m", (), "chat"), (BUNDLED_NAME, (), "mixed"), ("m", ("--workload", "json"), "json")],
)
def test_a_run_uses_it_and_says_why(
    tmp_path: Path, model: str, options: tuple[str, ...], workload: str
) -> None:
    file = tmp_path / "run.json"
    with spawn_mock_vllm("--model", model, "--tpot-ms", "1") as server:
        arguments = ("--num-requests", "3", "--max-tokens", "2", "--json", str(file), *options)
        shown = CliRunner().invoke(main, ["bench", "run", server.url, *arguments]).output
    config = json.loads(file.read_text())["config"]
    assert config["workload"] == workload
    assert (config["workload_reason"] is None) == bool(options)
    assert ("--workload gives another" in shown) == (not options)

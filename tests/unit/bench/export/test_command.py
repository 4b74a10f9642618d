"""`paceline bench export` from the command line to its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.workbench.bench.command import bench
from unit.bench.simulated import SimulatedServer


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["export", *words])


@pytest.mark.parametrize(
    ("tool", "how"), [("locust", "locust -f {} --headless"), ("k6", "k6 run {}")]
)
def test_the_model_comes_from_the_server_and_no_key_is_written(
    tool: str, how: str, threaded_server: SimulatedServer, tmp_path: Path
) -> None:
    out = tmp_path / "script"
    result = invoke(
        *(threaded_server.url + "/v1", "--tool", tool, "--out", str(out), "--num-requests", "2"),
        *("--api-key", "secret"),
    )
    assert result.exit_code == 0, result.output
    assert how.format(out) in result.output
    script = out.read_text()
    assert script.count("simulated") == 2
    assert threaded_server.url in script
    assert "secret" not in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "Missing option '--tool'"),
        (["--tool", "ab", "--out", "x"], "'ab' is not one of"),
        (["--tool", "k6", "--out", "absent/x"], "folder that does not exist"),
        (["--tool", "k6", "--out", "x", "--rate", "1", "--concurrency", "1"], "exclude"),
        (["ftp://h", "--tool", "k6", "--out", "x"], "must look like"),
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.output


def test_an_absent_server_needs_a_model_name(tmp_path: Path) -> None:
    words = ["http://127.0.0.1:1", "--tool", "k6", "--out", str(tmp_path / "x.js")]
    assert "http://127.0.0.1:1/v1/models cannot be reached" in invoke(*words).output
    assert invoke(*words, "--model", "m").exit_code == 0

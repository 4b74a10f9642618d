"""`paceline bench quick` from the command line to its file, against a mock vLLM server."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.testing.mock_vllm.spawn import spawn_mock_vllm
from paceline.workbench.bench.command import bench
from unit.bench.bench_process import interrupt, start_bench


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["quick", *words])


def num_requests(url: str) -> int:
    """Requests in the mock server's log, ended or running."""
    with urllib.request.urlopen(f"{url}/mock_vllm/requests") as response:
        document = json.load(response)
    return sum(len(records) for records in document.values() if isinstance(records, list))


def test_a_plain_server_gets_a_plain_answer(tmp_path: Path) -> None:
    """Without Paceline and without a configuration; one window is enough.

    The server takes 5 ms per token, and a slow machine longer.
    """
    report = tmp_path / "quick.json"
    with spawn_mock_vllm("--tpot-ms", "5") as server:
        result = invoke(
            *(server.url, "--seconds", "10", "--max-concurrency", "1", "--max-tokens", "16"),
            *("--json", str(report), "--admin-key", "hidden"),
        )
    assert result.exit_code == 0, result.output
    assert "The server holds at least 1 chat at once" in result.output
    document = json.loads(report.read_text())
    assert document["schema_version"] == 1
    assert document["max_concurrency"] == {
        "value": 1,
        "low": 1,
        "high": None,
        "is_lower_bound": True,
    }
    assert document["slo"] == {"ttft_ms": 1000.0, "percentile": 90}
    assert document["speculation_gain"] is None
    assert "--admin-url" in document["speculation"]["reason"]
    assert document["single_request"]["tpot_ms"] > 4.5


def test_ctrl_c_leaves_a_valid_partial_report(tmp_path: Path) -> None:
    report = tmp_path / "quick.json"
    with spawn_mock_vllm("--tpot-ms", "5") as server:
        ended = interrupt(
            start_bench("quick", server.url, "--json", str(report), "--max-tokens", "8"),
            when=lambda: num_requests(server.url) >= 4,
        )
    assert ended.exit_code == 130, ended.errors
    document = json.loads(report.read_text())
    assert document["is_interrupted"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ftp://h"], "must look like"),
        (["--ttft", "0"], "not in the range"),
        (["--seconds", "2"], "not in the range"),
        (["--admin-url", "8001"], "must look like"),
        (["--json", "absent/q.json"], "folder that does not exist"),
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.output


def test_an_absent_server_is_an_error_that_names_it() -> None:
    result = invoke("http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "http://127.0.0.1:1/v1/models cannot be reached" in result.output

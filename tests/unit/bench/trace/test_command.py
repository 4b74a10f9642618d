"""`paceline bench trace` from the command line to its report, against the mock server."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from paceline.foundation.shifting_trace.reading import parse_trace
from paceline.testing.mock_vllm import SpawnedMockVllm, spawn_mock_vllm
from paceline.workbench.bench.command import bench
from paceline.workbench.bench.results.speculation import counters_from_metrics
from unit.bench.bench_process import interrupt, start_bench
from unit.shifting_trace.documents import document

RATES = '{"num_speculative_tokens": 2, "rejection_sample_method": "synthetic", '
RATES += '"synthetic_acceptance_rates": [0.5, 0.5]}'


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["trace", *words])


@pytest.fixture(scope="module")
def server() -> Iterator[SpawnedMockVllm]:
    with spawn_mock_vllm("--tpot-ms", "2", "--speculative-config", RATES) as spawned:
        yield spawned


@pytest.fixture
def small(tmp_path: Path) -> str:
    """Three phases: 60 tokens, 0.5 s, and 60 tokens."""
    path = tmp_path / "small.json"
    whole = document("phases", 0, "duration_s")
    whole["phases"][0]["output_tokens"] = 60
    whole["phases"][1] |= {"duration_s": 0.5, "load": {"rate_per_s": 40}}
    whole["phases"][2]["output_tokens"] = 60
    path.write_text(json.dumps(whole))
    return str(path)


def test_a_run_by_script_writes_its_report(
    server: SpawnedMockVllm, small: str, tmp_path: Path
) -> None:
    report = tmp_path / "k2.json"
    words = [small, "--url", server.url, "--acceptance", "scripted"]
    result = invoke(*words, "--label", "K=2", "--json", str(report))
    found = json.loads(report.read_text())
    assert found["schema_version"] == 1
    assert found["kind"] == "paceline bench trace"
    assert found["trace"] == {
        "name": "small",
        "sha256": parse_trace(document_of(small), "small").sha256,
        "acceptance": "scripted",
        "load_scale": 1.0,
        "time_scale": 1.0,
        "seed": 0,
        "label": "K=2",
    }
    assert found["summary"]["num_errors"] == 0
    assert [phase["name"] for phase in found["phases"]] == ["a", "b", "c"]
    for phase in found["phases"][::2]:  # in the time of the other one, a machine may stand still
        assert phase["output_tokens_per_s"] > 0
        assert phase["speculation"]["num_drafts"] > 0
    assert found["phases"][0]["adaptation"] is None
    assert found["comparison"] is None
    assert found["config"]["model"] == "mock_vllm"
    assert "phase" in result.output
    assert "tokens/s" in result.output


def document_of(path: str) -> object:
    return json.loads(Path(path).read_text())


def test_a_run_by_text_is_compared_with_another(
    server: SpawnedMockVllm, small: str, tmp_path: Path
) -> None:
    """The other run is this one with known rates, and valid whatever this machine did."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    words = [small, "--url", server.url]
    invoke(*words, "--json", str(first))
    other = json.loads(first.read_text()) | {"valid": True}
    for phase in other["phases"]:
        phase["output_tokens_per_s"] = 1e6
    other["trace"]["label"] = "the best"
    first.write_text(json.dumps(other))
    result = invoke(*words, "--against", str(first), "--json", str(second))
    comparison = json.loads(second.read_text())["comparison"]
    assert comparison["against"] == ["the best"]
    assert [phase["oracle"] for phase in comparison["phases"]] == ["the best"] * 3
    rates = [p["output_tokens_per_s"] for p in json.loads(second.read_text())["phases"]]
    assert comparison["worst_phase_fraction"] == pytest.approx(min(rates) / 1e6)
    assert "of the oracle" in result.output


def test_servers_are_started_for_synthetic_acceptance(tmp_path: Path) -> None:
    trace, report = tmp_path / "two.json", tmp_path / "report.json"
    whole = document("phases", value=document()["phases"][:1])
    del whole["phases"][0]["duration_s"]
    whole["phases"][0]["output_tokens"] = 600
    whole["phases"].append(whole["phases"][0] | {"name": "b", "mix": "hard"})
    trace.write_text(json.dumps(whole))
    command = (
        f"{shlex.quote(sys.executable)} -m paceline.testing.mock_vllm --port {{port}} --tpot-ms 2 "
    )
    command += "--speculative-config {speculative_config}"
    invoke(
        *(str(trace), "--acceptance", "synthetic", "--draft-length", "2"),
        *("--serve", command, "--json", str(report)),
    )
    found = json.loads(report.read_text())
    assert found["summary"]["num_errors"] == 0
    first, second = (p["speculation"]["accepted_per_position_fraction"] for p in found["phases"])
    assert first[0] == pytest.approx(0.9, abs=0.12)
    assert second[0] == pytest.approx(0.2, abs=0.12)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_the_phases_that_ended(
    server: SpawnedMockVllm, tmp_path: Path, number: signal.Signals
) -> None:
    """The second phase would last an hour; the signal comes in it."""
    trace, report = tmp_path / "long.json", tmp_path / "report.json"
    whole = document("phases", 0, "duration_s", value=0.3)
    whole["phases"][1] |= {"duration_s": 3600, "load": {"rate_per_s": 100}}
    trace.write_text(json.dumps(whole))
    process = start_bench(
        *("trace", str(trace), "--url", server.url, "--acceptance", "scripted"),
        *("--json", str(report)),
    )
    num_before = num_drafts(server)
    ended = interrupt(process, lambda: num_drafts(server) > num_before + 1500, number)
    assert ended.exit_code == 130, ended.errors
    found = json.loads(report.read_text())
    assert (found["interrupted"], found["valid"]) == (True, False)
    assert [phase["name"] for phase in found["phases"]] == ["a"]
    assert "interrupted after 1 of 3 phases" in " ".join(ended.output.split())


def num_drafts(server: SpawnedMockVllm) -> int:
    counters = counters_from_metrics(httpx.get(f"{server.url}/metrics", timeout=60).text)
    assert counters is not None
    return counters.num_drafts or 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.json"], "trace is 'nowhere.json'; it must be a file or one of the published"),
        (["mixed-chat", "--url", "ftp://a"], "URL is 'ftp://a'"),
        (["mixed-chat", "--acceptance", "synthetic"], "needs --serve COMMAND"),
        (["mixed-chat", "--serve", "vllm {port}"], "--serve is for --acceptance synthetic"),
        (
            ["mixed-chat", "--acceptance", "synthetic", "--serve", "x {port}", "--url", "http://a"],
            "Give one of them",
        ),
        (
            ["mixed-chat", "--acceptance", "synthetic", "--serve", "vllm"],
            "it needs {port}, which is replaced by a port",
        ),
        (["mixed-chat", "--speculative-config", "[]"], "it must be a JSON object"),
        (["mixed-chat", "--speculative-config", "{"], "which is not JSON"),
        (["mixed-chat", "--load-scale", "nan"], "nan"),
        (["mixed-chat", "--json", "/nowhere/a.json"], "in a folder that does not exist"),
    ],
)
def test_wrong_usage_names_the_option(words: list[str], message: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.replace("│", " ").split())


def test_help_lists_the_published_traces() -> None:
    text = invoke("--help").output
    for name in ("easy-hard-easy", "load-staircase", "mixed-chat"):
        assert name in text

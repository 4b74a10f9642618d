"""Signals to a real process that measures the mock vLLM: partial reports and surfaced stalls."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.testing.mock_vllm import read_request_log
from paceline.testing.mock_vllm.spawn import SpawnedMockVllm, spawn_mock_vllm
from unit.bench.bench_process import interrupt, start_bench, wait_for
from unit.bench.run.schema import validate


@pytest.fixture
def request_log(tmp_path: Path) -> Path:
    return tmp_path / "requests.jsonl"


@pytest.fixture
def mock_server(request_log: Path) -> Iterator[SpawnedMockVllm]:
    """10 ms per token; answers end at their limit only."""
    flags = ["--model", "m", "--tpot-ms", "10", "--eos-every-tokens", "0"]
    with spawn_mock_vllm(*flags, "--request-log", str(request_log)) as server:
        yield server


def num_ended(log: Path) -> int:
    """Requests that the mock server has ended."""
    return log.read_text().count('"event":"ended"') if log.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_valid_partial_report(
    mock_server: SpawnedMockVllm, request_log: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """An hour is planned; the signal comes after six answers of 20 tokens, 0.2 s each."""
    report, records = tmp_path / "report.json", tmp_path / "records.jsonl"
    process = start_bench(
        *("run", mock_server.url, "--workload", "code"),
        *("--duration", "3600", "--concurrency", "3", "--max-tokens", "20"),
        *("--json", str(report), "--records", str(records), "--slo", "ttft=30s"),
    )
    ended = interrupt(process, lambda: num_ended(request_log) >= 6, number)
    assert ended.exit_code == 130, ended.errors
    document = json.loads(report.read_text())
    validate(document)
    summary = document["summary"]
    assert document["interrupted"] is True
    assert "interrupted" in [warning["id"] for warning in document["warnings"]]
    assert summary["num_requests"] >= 6
    assert summary["num_errors"] == 0
    assert summary["output_tokens"] == 20 * summary["num_requests"]
    assert 1 <= document["num_unfinished"] <= 3
    assert len(records.read_text().splitlines()) == summary["num_requests"]
    assert "interrupted before the planned end" in " ".join(ended.output.split())
    # The server's own log has the reported requests, and at most those in flight beside them.
    finished = [r for r in read_request_log(request_log) if r.ending == "finished"]
    reported = {json.loads(line)["request_id"] for line in records.read_text().splitlines()}
    assert reported <= {record.request_id for record in finished}
    assert len(finished) <= summary["num_requests"] + document["num_unfinished"]
    leftovers = sorted(path.name for path in tmp_path.iterdir())
    assert leftovers == ["records.jsonl", "report.json", "requests.jsonl"]


def test_stalls_of_the_load_generator_are_surfaced(
    mock_server: SpawnedMockVllm, request_log: Path, tmp_path: Path
) -> None:
    """The process is stopped twice for 0.4 s while its requests run."""
    report = tmp_path / "report.json"
    process = start_bench(
        *("run", mock_server.url),
        *("--num-requests", "48", "--concurrency", "2", "--max-tokens", "20"),
        *("--json", str(report)),
    )
    for number in (3, 8):
        wait_for(lambda number=number: num_ended(request_log) >= number, process)
        for _ in range(20):  # whatever else continues it
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.02)  # sleep: a longer stall is as good
        process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=60)
    document = json.loads(report.read_text())
    long_stalls = [s for s in document["client"]["stalls"] if s["duration_s"] >= 0.3]
    assert len(long_stalls) >= 2
    assert document["valid"] is False
    assert document["client"]["num_requests_stalled"] >= 2
    assert process.returncode == 1
    assert "the load generator stalled" in errors

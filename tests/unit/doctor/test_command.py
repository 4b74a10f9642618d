"""`paceline doctor` against servers over HTTP."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from polling import wait_until

from paceline.cli import main
from paceline.operations.doctor.observing.server import MAX_PAGE_BYTES
from paceline.testing.mock_vllm import spawn_mock_vllm
from unit.doctor.answering import Answers, answering
from unit.doctor.simulated import SimulatedEngine

METRICS = SimulatedEngine().pages()[-1].encode()
DRAFTS = {
    "num_speculative_tokens": 8,
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_rates": [0.1, 0, 0, 0, 0, 0, 0, 0],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_help_has_examples_and_exit_codes() -> None:
    text = run("--help").output
    assert "Examples:" in text
    assert "3 something" in " ".join(text.split())


def test_an_idle_mock_server_has_no_finding(tmp_path: Path) -> None:
    file = tmp_path / "diagnosis.json"
    with spawn_mock_vllm("--model", "m") as server:
        result = run(server.url, "--seconds", "2", "--json", str(file))
    assert result.exit_code == 0, result.output
    assert "Nothing found" in result.output
    assert "checks without a verdict:" in result.output
    document = json.loads(file.read_text())
    assert document["schema_version"] == 1
    assert document["findings"] == []
    assert document["server"] == {"url": server.url, "kind": "vllm", "vllm": "0.32.0"}
    assert document["num_readings"] >= 2


def test_a_probe_finds_what_drafts_lose_on_a_mock_server(tmp_path: Path) -> None:
    """At load n a step takes 27 + 9 n ms instead of 19 + n ms, for 1.1 tokens."""
    file = tmp_path / "diagnosis.json"
    flags = (
        "--speculative-config", json.dumps(DRAFTS), "--draft-ms", "1", "--verify-ms", "1",
        "--tpot-per-sequence-ms", "1", "--eos-every-tokens", "0", "--max-model-len", "16384",
    )  # fmt: skip
    with spawn_mock_vllm("--model", "m", *flags) as server:
        result = run(server.url, "--seconds", "6", "--probe", "--json", str(file))
    assert result.exit_code == 1, result.output
    document = json.loads(file.read_text())
    findings = {one["id"]: one for one in document["findings"]}
    found = findings.get("speculation-loses") or findings["draft-too-long"]
    assert found["cost"]["basis"] == "estimated"
    assert found["cost"]["low"] > 0
    assert document["probe"]["gain"] is None
    assert "cannot draft less while it runs" in document["probe"]["gain_reason"]
    assert document["probe"]["num_failed"] == 0
    assert "duplicate-tokens" in document["passed"]


def test_a_probe_of_a_small_server_does_not_judge_its_own_queue(tmp_path: Path) -> None:
    """Eight requests at a time, of which the server computes two."""
    file = tmp_path / "diagnosis.json"
    with spawn_mock_vllm("--model", "m", "--max-num-seqs", "2") as server:
        result = run(server.url, "--seconds", "4", "--probe", "--json", str(file))
    document = json.loads(file.read_text())
    assert "queue-in-engine" not in {one["id"] for one in document["findings"]}, result.output
    reasons = {one["check"]: one["reason"] for one in document["not_judged"]}
    assert "the only requests were those of the probe, at most 8 at a time" in reasons["queue"]
    assert document["probe"]["concurrency"] == 8


class Pages(Mapping[str, tuple[int, bytes]]):
    """Every reading of the metrics gets the next page; after the last one they are gone."""

    def __init__(self, pages: Iterable[bytes]) -> None:
        self._pages = iter(pages)

    def __getitem__(self, path: str) -> tuple[int, bytes]:
        page = next(self._pages, None) if path == "/metrics" else None
        if page is None:
            raise KeyError(path)
        return 200, page

    def __iter__(self) -> Iterator[str]:
        return iter(("/metrics",))

    def __len__(self) -> int:
        return 1


@contextlib.contextmanager
def losing_server() -> Iterator[Answers]:
    """Eight drafts of which none is accepted; every reading is a second of the engine later."""
    pages = SimulatedEngine(reached=(0.0,) * 8, draft_ms=2).pages()
    with answering(Pages(page.encode() for page in pages)) as server:
        yield server


@pytest.mark.parametrize("machines", [1, 2])
def test_a_price_states_lost_throughput_in_money(tmp_path: Path, machines: int) -> None:
    file = tmp_path / "diagnosis.json"
    price = ("--usd-per-hour", "3.6", "--machines", str(machines))
    with losing_server() as server:
        result = run(server.url, "--seconds", "2", *price, "--json", str(file))
    assert result.exit_code == 1, result.output
    assert re.search(
        r"money   \S+ USD per hour \(\S+ to \S+\), \S+ USD per 1M output tokens \(", result.output
    )
    document = json.loads(file.read_text())
    assert document["price"] == {"usd_per_hour": 3.6, "num_machines": machines}
    (finding,) = document["findings"]
    cost = finding["cost"]
    assert set(cost["usd_per_hour"]) == {"amount", "low", "high"}
    assert cost["usd_per_hour"]["amount"] == pytest.approx(3.6 * machines * cost["share"])
    present, possible = (
        3.6 * machines / 3600 * 1e6 / tokens_per_s
        for tokens_per_s in (
            cost["present_tokens_per_s"], cost["present_tokens_per_s"] + cost["amount"]
        )
    )  # fmt: skip
    per_million = cost["usd_per_million_output_tokens"]["amount"]
    assert per_million == pytest.approx(present - possible)


def test_without_a_price_no_money_is_stated(tmp_path: Path) -> None:
    file = tmp_path / "diagnosis.json"
    with losing_server() as server:
        result = run(server.url, "--seconds", "2", "--json", str(file))
    assert result.exit_code == 1, result.output
    assert "USD" not in result.output
    document = json.loads(file.read_text())
    assert document["price"] is None
    assert document["findings"][0]["cost"]["usd_per_hour"] is None


_RULES = """
groups:
  - name: latency
    rules:
      - alert: SlowFirstToken
        expr: histogram_quantile(0.99, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 2
      - alert: FullCache
        expr: vllm:gpu_cache_usage_perc > 0.9
"""
_DASHBOARD = {"panels": [{"title": "Waiting", "targets": [{"expr": "vllm:num_requests_waitin"}]}]}


def test_alerts_and_panels_without_their_metric_are_named(tmp_path: Path) -> None:
    rules, dashboard = tmp_path / "rules.yaml", tmp_path / "board.json"
    rules.write_text(_RULES)
    dashboard.write_text(json.dumps(_DASHBOARD))
    with answering({"/metrics": (200, METRICS)}) as server:
        result = run(
            server.url, "--seconds", "2", "--rules", str(rules), "--dashboard", str(dashboard)
        )
    assert result.exit_code == 1, result.output
    text = " ".join(result.output.split())
    assert "alert 'FullCache' needs vllm:gpu_cache_usage_perc" in text
    assert "panel 'Waiting' needs vllm:num_requests_waitin" in text
    assert "SlowFirstToken" not in text


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--rules", "groups: [", "no rule file of Prometheus"),
        ("--rules", "a: 1", "it has no groups of rules"),
        ("--dashboard", "{", "no dashboard of Grafana"),
        ("--dashboard", "{}", "it has no panels"),
        ("--rules", "x" * 17 * 2**20, "larger than 16 MiB"),
    ],
)
def test_a_file_without_alerts_or_panels_is_refused_before_anything_is_read(
    tmp_path: Path, option: str, text: str, message: str
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with answering({"/metrics": (200, METRICS)}) as server:
        result = run(server.url, "--seconds", "2", option, str(file))
    assert result.exit_code == 4, result.output
    assert message in " ".join(result.output.split())
    assert server.requests == []


def test_without_probe_nothing_but_reads_is_sent() -> None:
    with answering({"/metrics": (200, METRICS)}) as server:
        assert run(server.url, "--seconds", "2").exit_code == 0
    assert {request.partition(" ")[0] for request in server.requests} == {"GET"}
    assert set(server.requests) == {"GET /metrics", "GET /version"}


@pytest.mark.parametrize("body", [b"[" * 100_000, b"<html>", b"\xff", b'{"version": ["0.32.0"]}'])
def test_a_server_may_answer_anything_for_its_version(body: bytes) -> None:
    with answering({"/metrics": (200, METRICS), "/version": (200, body)}) as server:
        result = run(server.url, "--seconds", "2")
    assert result.exit_code == 0, result.output
    assert "versions: the server does not report its version" in " ".join(result.output.split())


def test_the_key_is_sent_and_not_written(tmp_path: Path) -> None:
    file = tmp_path / "diagnosis.json"
    with answering({"/metrics": (200, METRICS)}) as server:
        result = run(server.url, "--seconds", "2", "--admin-key", "s3cret", "--json", str(file))
    assert server.keys[0] == "Bearer s3cret"
    assert "s3cret" not in result.output + file.read_text()


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"/metrics": (401, b"")}, "it needs a key, or another one (--admin-key)"),
        ({"/metrics": (500, b"")}, "answered with status 500"),
        ({"/metrics": (302, b"")}, "answered with status 302"),
        ({"/metrics": (200, b"<!doctype html><p>Sign in")}, "is an HTML page"),
        ({"/metrics": (200, b"{}")}, "is JSON"),
        ({"/metrics": (200, b"\xff\xfe\x00")}, "no Prometheus text"),
        ({"/metrics": (200, b"node_load1 0.5\n")}, "no metric of vLLM or Paceline"),
        (
            {"/metrics": (200, b'vllm:num_requests_running{server="a"} 1\nvllm:current_qps 2\n')},
            "no metric that only an engine has (such as vllm:generation_tokens_total)",
        ),
        ({}, "answered with status 404"),
        (
            {"/v1/models": (200, b'{"data": [{"id": "m", "owned_by": "paceline"}]}')},
            "the data port of a Paceline gateway: give its admin port",
        ),
        ({"/v1/models": (200, b'{"data": [{"owned_by": "me"}]}')}, "owned by 'me'"),
        ({"/metrics": (200, b"a 1\n" * (MAX_PAGE_BYTES // 4 + 1))}, "more than 16 MiB"),
    ],
)
def test_a_server_that_shows_no_metrics_is_named(
    answers: dict[str, tuple[int, bytes]], message: str
) -> None:
    with answering(answers) as server:
        result = run(server.url, "--seconds", "2")
    assert result.exit_code == 4, result.output
    assert message in " ".join(result.output.split())


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Refuses connections: no program listens there, and none can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_server_that_does_not_answer_is_named(closed_port: int) -> None:
    result = run(f"http://127.0.0.1:{closed_port}", "--seconds", "2")
    assert result.exit_code == 4
    assert "cannot be reached" in result.output


def test_the_log_of_an_engine_that_did_not_start_is_judged(
    tmp_path: Path, closed_port: int
) -> None:
    log, file = tmp_path / "vllm.log", tmp_path / "diagnosis.json"
    error = b"ValueError: No available memory for the cache blocks. \x1b]0;title\x07Try"
    log.write_bytes(b"\xff\xfe\n" + error + b"\n")
    url = f"http://127.0.0.1:{closed_port}"
    result = run(url, "--seconds", "2", "--log", str(log), "--json", str(file))
    assert result.exit_code == 3, result.output
    assert "CRITICAL log-no-memory-for-kv-cache" in result.output
    assert "\x1b" not in result.output
    document = json.loads(file.read_text())
    assert document["server"]["kind"] is None
    assert "cannot be reached" in document["not_judged"][0]["reason"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "log: it is empty"),
        ("INFO 11-02 10:00:01 [a.py:1] vLLM API server version 0.32.0\n", "has a known cause"),
        ("Traceback (most recent call last):\nKeyError: 'layers.7'\n", "is KeyError: 'layers.7'"),
    ],
)
def test_a_silent_server_with_a_log_of_unknown_messages_gets_no_clean_bill(
    tmp_path: Path, closed_port: int, text: str, shown: str
) -> None:
    log, file = tmp_path / "vllm.log", tmp_path / "diagnosis.json"
    log.write_text(text)
    url = f"http://127.0.0.1:{closed_port}"
    result = run(url, "--seconds", "2", "--log", str(log), "--json", str(file))
    assert result.exit_code == 4, result.output
    assert "No diagnosis: no check has a verdict." in result.output
    assert "Nothing found" not in result.output
    assert shown in " ".join(result.output.split())
    assert json.loads(file.read_text())["exit_code"] == 4


def test_a_server_that_refuses_its_metrics_is_judged_by_its_log_alone(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("INFO 11-02 10:00:01 [a.py:1] vLLM API server version 0.32.0\n")
    with answering({"/metrics": (401, b"")}) as server:
        result = run(server.url, "--seconds", "2", "--log", str(log))
    assert result.exit_code == 4, result.output


def test_a_server_that_ends_at_once_is_judged_by_its_log(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory.\n")
    with answering(Pages([METRICS])) as server:
        result = run(server.url, "--seconds", "2", "--log", str(log))
    assert result.exit_code == 3, result.output
    assert "CRITICAL log-out-of-memory" in result.output


def test_a_server_that_ends_while_observed_is_critical() -> None:
    with answering(Pages([METRICS] * 4)) as server:  # two of them identify the server
        result = run(server.url, "--seconds", "2")
    assert result.exit_code == 3, result.output
    assert "CRITICAL server-lost" in result.output
    assert "readings failed, the last one because" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("ftp://x",),
        ("http://x", "--seconds", "1"),
        ("http://x", "--data-url", "http://y"),
        ("http://x", "--temperature", "1"),
        ("http://x", "--json", "/no/such/folder/file"),
        ("http://x", "--log", "/no/such/file"),
        ("http://x", "--concurrency", "0"),
        ("http://x", "--usd-per-hour", "0"),
        ("http://x", "--machines", "2"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_an_interruption_reports_what_was_read(tmp_path: Path) -> None:
    """Ctrl-C: SIGINT to a process of its own."""
    file = tmp_path / "diagnosis.json"
    program = "from paceline.cli import main; main()"
    with answering({"/metrics": (200, METRICS)}) as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", program, "doctor", server.url),
                *("--seconds", "600", "--json", str(file)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: len(server.requests) >= 5)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted before the end" in output
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["is_interrupted"] is True


def test_a_reader_that_leaves_changes_neither_the_file_nor_the_exit_code(tmp_path: Path) -> None:
    """As `paceline doctor … | head -1` does."""
    file = tmp_path / "diagnosis.json"
    program = "from paceline.cli import main; main(prog_name='paceline')"
    with losing_server() as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", program, "doctor", server.url),
                *("--seconds", "2", "--json", str(file)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 1
    assert errors == ""
    assert json.loads(file.read_text())["findings"]

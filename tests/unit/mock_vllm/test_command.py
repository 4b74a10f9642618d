"""The command `paceline mock-vllm`: its help, its errors and its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.testing.mock_vllm import spawn_mock_vllm


def test_help_lists_every_flag_and_examples() -> None:
    text = CliRunner().invoke(main, ["mock-vllm", "--help"]).output
    flags = "host port socket model max-model-len tpot-ms prefill-tokens-per-s max-num-seqs seed "
    flags += "speculates faults request-log tokens-per-chunk answer-style"
    for flag in [
        *flags.split(),
        "speculates",
        "faults",
        "request-log",
        "tokens-per-chunk",
        "answer-style",
    ]:
        assert f"--{flag}" in text
    assert "Examples:" in text


def test_paceline_lists_the_command() -> None:
    assert "mock-vllm" in CliRunner().invoke(main, ["--help"]).output


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tpot-ms", "-1"], "tpot_ms must not be negative"),
        (["--max-num-seqs", "0"], "max_num_seqs must be at least 1"),
        (["--tokens-per-chunk", "1,x"], "must be integers such as 1 or 1,3,2; got 1,x"),
        (["--answer-style", "id,wrong"], "answer_style must be names of id, event"),
        (["--answer-style", "crlf,cr"], "the answer styles crlf and cr exclude each other"),
        (["--tokens-per-chunk", "0"], "counts of at least 1"),
        (["--tpot-per-sequence-ms", "-1"], "tpot_per_sequence_ms must not be negative"),
        (
            ["--num-kv-blocks", "3"],
            "(max_model_len=4096): 0 or at least 257, got 3",
        ),
    ],
)
def test_wrong_flags_are_refused_with_the_reason(flags: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["mock-vllm", *flags])
    assert result.exit_code == 2
    assert message in result.output


def test_a_wrong_fault_script_is_refused_with_the_reason(tmp_path: Path) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text("- kind: sneeze\n")
    result = CliRunner().invoke(main, ["mock-vllm", "--faults", str(script)])
    assert result.exit_code == 2
    assert "Fault 1: kind must be one of die" in result.output


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with spawn_mock_vllm() as server:
        command = [sys.executable, "-m", "paceline.testing.mock_vllm", "--port", str(server.port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Cannot start" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_sigterm_ends_the_server_and_records_running_requests_as_stopped(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with spawn_mock_vllm("--request-log", str(path)) as server:
        body = {"prompt": "a", "max_tokens": 3000, "stream": True, "ignore_eos": True}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as answer:
            parts = answer.iter_raw()
            next(parts)
            server.terminate()
        assert server.returncode == 0
    assert '"ending":"stopped"' in path.read_text()

"""`paceline audit` against mock servers on loopback: exit codes, report, lines."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from paceline.foundation.command_line.server_options import choose_other_key
from paceline.testing.mock_vllm import Fault, FaultKind, MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation
from paceline.workbench.audit import command
from paceline.workbench.audit.auditing import Audit

SETTINGS = MockVllmSettings(
    model="m",
    tpot_ms=0.0,
    prefill_tokens_per_s=1e9,
    eos_every_tokens=0,
    speculation=Speculation(1, (0.9,)),
)


@contextmanager
def served(*faults: Fault) -> Iterator[str]:
    """A mock server on a thread of its own, because the command runs an event loop."""
    ready, done = threading.Event(), asyncio.Event()
    found: list[str] = []

    async def serve() -> None:
        async with MockVllm(SETTINGS, faults=faults) as server:
            found.append(server.url)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await done.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield found[0]
    finally:
        loops[0].call_soon_threadsafe(done.set)
        thread.join(60)


def audit(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words])


@pytest.mark.parametrize(
    ("kind", "exit_code", "verdict"),
    [(FaultKind.NO_DEFECT, 0, "lossless"), (FaultKind.RANDOM_TEMPERATURE, 1, "lossy")],
)
def test_the_exit_code_is_the_verdict(
    kind: FaultKind, exit_code: int, verdict: str, tmp_path: Path
) -> None:
    file = tmp_path / "audit.json"
    with served(Fault(kind)) as url:
        result = audit(url, "--json", str(file), "--smallest-bias", "0.75")
    assert result.exit_code == exit_code, result.output
    assert result.output.startswith(f"{verdict}: {url}")
    document = json.loads(file.read_text())
    assert document["schema_version"] == 1
    assert document["verdict"] == verdict
    assert {"greedy", "sampled", "smallest_failing_request"} <= set(document)
    assert document["error_rates"]["false_alarm"] == 0.001
    if verdict == "lossy":
        assert document["smallest_failing_request"]["body"]["model"] == "m"
        assert "https://github.com/vllm-project/vllm/issues/55005" in result.output
    else:
        assert document["smallest_failing_request"] is None
        assert document["error_rates"]["smallest_bias"] <= 0.75


def test_too_little_time_is_undecided_with_exit_code_3() -> None:
    with served() as url:
        result = audit(url, "--max-seconds", "1", "--smallest-bias", "0.05")
    assert result.exit_code == 3, result.output
    assert "--max-seconds 1" in result.output


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    result = audit("http://127.0.0.1:1")
    assert result.exit_code == 4
    assert "are not known (" in result.output


def test_a_server_that_dies_of_a_request_is_found_with_the_request() -> None:
    """The 40th is a sampled one that was sent alone."""
    with served(Fault(FaultKind.DIE, request=40)) as url:
        result = audit(url, "--restart-seconds", "0")
    assert result.exit_code == 1, result.output
    assert "an ordinary request ended the server" in " ".join(result.output.split())
    assert f"curl -s {url}/v1/completions" in result.output


def test_an_unexpected_exception_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run(audit: Audit) -> None:
        raise KeyError("logits")

    monkeypatch.setattr(Audit, "run", run)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = audit("http://127.0.0.1:1")
    assert result.exit_code == 4
    assert "unexpected KeyError: 'logits'" in result.output
    [file] = tmp_path.iterdir()
    assert (
        f"Please report it to the developers of Paceline with the command and the file {file}"
        in (result.output)
    )
    assert 'raise KeyError("logits")' in file.read_text()


def test_ctrl_c_before_the_audit_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the libraries are imported; click alone would exit with 1, which is `lossy`."""

    def interrupted(**options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_audit", interrupted)
    result = audit("http://127.0.0.1:1")
    assert (result.exit_code, result.output) == (4, "Error: interrupted before the audit began\n")


def test_a_second_ctrl_c_does_not_break_off_the_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It comes while the environment is described, before anything is written."""

    async def run(audit: Audit) -> None:
        raise asyncio.CancelledError

    def environment() -> dict[str, object]:
        os.kill(os.getpid(), signal.SIGINT)
        return {}

    monkeypatch.setattr(Audit, "run", run)
    monkeypatch.setattr(command, "_environment", environment)
    file = tmp_path / "audit.json"
    result = audit("http://127.0.0.1:1", "--json", str(file))
    assert result.exit_code == 3, result.output
    assert json.loads(file.read_text())["is_interrupted"]


@pytest.mark.parametrize(
    ("reference", "own_key", "expected"),
    [
        ("http://a:1", None, "key"),
        ("http://a:2", None, None),
        ("https://a:1", None, None),
        ("http://b:1", None, None),
        ("http://b:1", "other", "other"),
        ("http://a:1", "other", "other"),
    ],
)
def test_the_key_is_sent_to_no_other_origin(
    reference: str, own_key: str | None, expected: str | None
) -> None:
    assert choose_other_key("http://a:1", reference, "key", own_key) == expected


@pytest.mark.parametrize("words", [("ftp://a",), ("http://a", "--reference", "b")])
def test_wrong_addresses_are_wrong_usage(words: tuple[str, ...]) -> None:
    result = audit(*words)
    assert result.exit_code == 2
    assert "must look like" in result.output

"""What `paceline serve` prints: its steps, and on a terminal commands to try."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.runtime.gateway import Replica, RunningGateway
from paceline.runtime.gateway.settings import KeySettings
from paceline.runtime.serve.terminal_output import TerminalOutput


@pytest.mark.parametrize("has_keys", [False, True])
def test_the_commands_send_a_key_where_one_is_required(
    has_keys: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich write as if to a terminal
    path = Path("keys") if has_keys else None
    fleet = SimpleNamespace(replicas=lambda: [Replica("r0", "/r0.sock", "tiny", "ready")])
    gateway = RunningGateway("127.0.0.1", 81, "127.0.0.1", 82, None, None, fleet, *[None] * 8)  # type: ignore[arg-type]
    TerminalOutput("tiny", KeySettings(file=path, admin_key_file=path)).ready(gateway)
    output = capsys.readouterr().out
    key = '-H "Authorization: Bearer $PACELINE_KEY" ' if has_keys else ""
    assert f"curl {key}http://127.0.0.1:81/v1/" in output
    assert f"curl {key}-N http://127.0.0.1:81/v1/" in output
    assert output.count('"temperature": 0,') == 2  # the bundled models' samples make no sense
    admin_key = key.replace("PACELINE_KEY", "PACELINE_ADMIN_KEY")
    assert f"curl {admin_key}http://127.0.0.1:82/admin/governor" in output
    assert "Watch it live: http://127.0.0.1:82/dashboard" in output


@pytest.mark.parametrize("is_terminal", [False, True])
def test_each_step_is_a_line_that_stays(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with TerminalOutput("tiny", KeySettings()) as output:
        for step in ("loading the model", "loading the model", "step times: measured 9 kinds"):
            output.progress("engine-0", step)
        output.progress("paceline", "stopping")
    printed = capsys.readouterr().err
    assert printed.count("paceline: engine-0: loading the model\n") == 1
    assert printed.count("paceline: engine-0: step times: measured 9 kinds\n") == 1
    assert printed.count("paceline: stopping\n") == 1
    assert ("Starting tiny" in printed) is is_terminal

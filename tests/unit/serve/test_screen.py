"""Can what a person is told to try be tried?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.gateway import Replica, RunningGateway
from paceline.gateway.settings import KeySettings
from paceline.serve.screen import Screen


@pytest.mark.parametrize("has_keys", [False, True])
def test_the_commands_show_a_key_where_one_is_asked_for(
    has_keys: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then writes as to a terminal
    path = Path("keys") if has_keys else None
    fleet = SimpleNamespace(replicas=lambda: [Replica("r0", "/r0.sock", "tiny", "ready")])
    gateway = RunningGateway("127.0.0.1", 81, "127.0.0.1", 82, ledger=None, fleet=fleet)  # type: ignore[arg-type]
    Screen("tiny", KeySettings(file=path, admin_key_file=path)).ready(gateway)
    said = capsys.readouterr().out
    key = '-H "Authorization: Bearer $PACELINE_KEY" ' if has_keys else ""
    assert said.count(f"curl {key}http://127.0.0.1:81/v1/") == 2
    admin_key = key.replace("PACELINE_KEY", "PACELINE_ADMIN_KEY")
    assert f"curl {admin_key}http://127.0.0.1:82/admin/governor" in said

"""The environment of a server that is started for a measurement."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from paceline.bench.compare.servers import free_ports, running

SERVER = """\
import http.server, os, pathlib, sys
pathlib.Path(sys.argv[2]).write_text("\\n".join(sorted(os.environ)))
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind="127.0.0.1")
"""


async def test_settings_in_the_environment_do_not_reach_a_trial_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would override the configuration of the trial."""
    monkeypatch.setenv("PACELINE_ENGINE__DRAFT", "ngram")
    monkeypatch.setenv("PACELINE_admission__max_in_flight", "1")
    monkeypatch.setenv("PACELINE_BENCH_API_KEY", "k")
    port, _ = free_ports()
    names = tmp_path / "names"
    command = [sys.executable, "-c", SERVER, str(port), str(names)]
    async with running("A", command, "server", f"http://127.0.0.1:{port}/", tmp_path, 20.0):
        found = [one for one in names.read_text().splitlines() if one.startswith("PACELINE_")]
    assert found == ["PACELINE_BENCH_API_KEY", "PACELINE_SERVER__LAME_DUCK_S"]

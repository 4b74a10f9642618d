"""The environment of a server that is started for a measurement, and its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.servers.server_process import free_ports, running
from paceline.workbench.bench.trace.started_server import started_server

SERVER = """\
import http.server, os, pathlib, signal, sys
folder = pathlib.Path(sys.argv[2])
if (folder / "ignores_sigterm").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready)
(folder / "pid").write_text(str(os.getpid()))
(folder / "names").write_text("\\n".join(sorted(os.environ)))
server.serve_forever()
"""
"""Writes down its process id and the names in its environment."""

Start = Callable[[Path], AbstractAsyncContextManager[Any]]


def started_for_a_comparison(folder: Path) -> AbstractAsyncContextManager[Any]:
    port, _ = free_ports()
    command = [sys.executable, str(folder / "server.py"), str(port), str(folder)]
    return running("A", command, "server.py", f"http://127.0.0.1:{port}/health", folder, 60.0)


def started_for_a_trace(folder: Path) -> AbstractAsyncContextManager[Any]:
    command = f"{sys.executable} {folder / 'server.py'} {{port}} {folder}"
    return started_server(command, (), {}, 60.0)


@pytest.fixture(params=[started_for_a_comparison, started_for_a_trace])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    (tmp_path / "server.py").write_text(SERVER)
    chosen: Start = request.param
    return chosen


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def test_settings_in_the_environment_do_not_reach_the_server(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would override its configuration or its command line."""
    monkeypatch.delenv("PACELINE_COSTS_FOLDER")
    monkeypatch.setenv("PACELINE_ENGINE__DRAFT", "ngram")
    monkeypatch.setenv("PACELINE_admission__max_in_flight", "1")
    monkeypatch.setenv("PACELINE_BENCH_API_KEY", "k")
    async with start(tmp_path):
        names = (tmp_path / "names").read_text().splitlines()
    found = [name for name in names if name.startswith("PACELINE_")]
    assert found == ["PACELINE_BENCH_API_KEY", "PACELINE_SERVER__LAME_DUCK_S"]


async def hold(start: Start, folder: Path, is_ready: asyncio.Event) -> None:
    async with start(folder):
        is_ready.set()
        await asyncio.Event().wait()


async def test_a_second_interruption_kills_a_server_that_ignores_sigterm(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "ignores_sigterm").touch()
    is_ready = asyncio.Event()
    task = asyncio.create_task(hold(start, tmp_path, is_ready))
    await asyncio.wait_for(is_ready.wait(), 60)
    process_id = int((tmp_path / "pid").read_text())
    task.cancel()
    await asyncio.sleep(0.1)  # sleep: for SIGTERM, which has no effect however long that is
    assert is_alive(process_id)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        while is_alive(process_id):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)  # sleep: the pause between two looks decides nothing

"""A server that does not end: two interruptions kill it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from paceline.bench.compare.servers import free_ports, running
from paceline.bench.trace.started_server import started_server

STUBBORN = """\
import http.server, os, pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready)
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
server.serve_forever()
"""


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


async def hold_compared(folder: Path, is_ready: asyncio.Event) -> None:
    port, _ = free_ports()
    command = [sys.executable, str(folder / "server.py"), str(port), str(folder / "pid")]
    url = f"http://127.0.0.1:{port}/health"
    async with running("A", command, "server.py", url, folder, 20.0):
        is_ready.set()
        await asyncio.Event().wait()


async def hold_traced(folder: Path, is_ready: asyncio.Event) -> None:
    command = f"{sys.executable} {folder / 'server.py'} {{port}} {folder / 'pid'}"
    async with started_server(command, (), {}, 20.0):
        is_ready.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("hold", [hold_compared, hold_traced])
async def test_a_second_interruption_kills_a_server_that_ignores_sigterm(
    hold: object, tmp_path: Path
) -> None:
    assert callable(hold)
    (tmp_path / "server.py").write_text(STUBBORN)
    is_ready = asyncio.Event()
    task = asyncio.create_task(hold(tmp_path, is_ready))
    await asyncio.wait_for(is_ready.wait(), 20)
    process_id = int((tmp_path / "pid").read_text())
    task.cancel()
    await asyncio.sleep(0.1)
    assert is_alive(process_id)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if not is_alive(process_id):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the server survived two interruptions")

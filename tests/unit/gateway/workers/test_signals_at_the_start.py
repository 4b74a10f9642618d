"""Who acts on a signal while the workers still start?"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.gateway.settings import FleetSettings, ReplicaEntry
from paceline.gateway.workers.totals import Totals
from paceline.gateway.workers.worker_process import WorkerProcess
from paceline.serve.plan import ServePlan
from paceline.serve.run import serve
from unit.gateway.conftest import until
from unit.gateway.workers.conftest import WORKERS, workers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_ends_a_start(tmp_path: Path, number: signal.Signals) -> None:
    """With exit code 0, as later; nobody waits until the workers serve."""
    fleet = FleetSettings(entries=(ReplicaEntry(url="http://127.0.0.1:9"),))
    plan = ServePlan(
        gateway=replace(WORKERS, fleet=fleet), engines=(), served_name=None, start_timeout_s=30,
        log_folder=tmp_path, run_folder=tmp_path, reasons=(),
    )  # fmt: skip
    told: list[tuple[str, str]] = []
    running = asyncio.create_task(
        serve(plan, on_progress=lambda *what: told.append(what), on_ready=print)
    )
    await until(lambda: len(workers()) == 2, within_s=10)
    for worker in workers():
        worker.suspend()
    os.kill(os.getpid(), number)
    async with asyncio.timeout(10):
        await running
    assert workers() == []
    assert told == [("paceline", "stopping")]


async def test_a_worker_ignores_signals_before_it_has_imported_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that mean the whole gateway would end it, and the head call its start a failure."""
    found, package = tmp_path / "found", tmp_path / "paceline"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, signal, pathlib\n"
        "pair = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]\n"
        f"pathlib.Path({str(found)!r}).write_text(str(pair == [signal.SIG_IGN] * 2))\n"
        "os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with socket.socket() as listener:
        worker = await WorkerProcess.start(0, WORKERS, listener, Totals(1))
        assert await worker.run(on_hung=print) == 3
    assert found.read_text() == "True"

"""Signals that arrive while the workers are still starting."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.gateway.settings import FleetSettings, ReplicaEntry
from paceline.runtime.gateway.workers.worker_process import WorkerProcess
from paceline.runtime.gateway.workers.worker_totals import WorkerTotals
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.run import serve
from unit.gateway.conftest import until
from unit.gateway.workers.conftest import WORKERS, workers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_first_signal_ends_the_start(tmp_path: Path, number: signal.Signals) -> None:
    """It exits with code 0, as it does later, and does not wait until the workers serve."""
    fleet = FleetSettings(entries=(ReplicaEntry(url="http://127.0.0.1:9"),))
    plan = ServePlan(
        gateway=replace(WORKERS, fleet=fleet), engines=(), served_name=None, start_timeout_s=30,
        max_restart_delay_s=60,
        log_folder=tmp_path, run_folder=tmp_path, reasons=(),
    )  # fmt: skip
    messages: list[tuple[str, str]] = []
    running = asyncio.create_task(
        serve(plan, on_progress=lambda *step: messages.append(step), on_ready=print)
    )
    await until(lambda: len(workers()) == 2)
    for worker in workers():
        worker.suspend()
    os.kill(os.getpid(), number)
    async with asyncio.timeout(60):
        await running
    assert workers() == []
    assert messages == [("paceline", "stopping")]


async def test_a_worker_ignores_signals_before_it_has_imported_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal to the whole gateway would end it, and the parent would report a failed start."""
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
        worker = await WorkerProcess.start(0, WORKERS, listener, WorkerTotals(1))
        assert await worker.run() == 3
    assert found.read_text() == "True"

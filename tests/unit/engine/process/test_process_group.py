"""The end of a process group is waited for, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from paceline.engine.launch.command import EngineCommand
from paceline.engine.process import engine_process
from paceline.engine.process.engine_process import EngineProcess
from paceline.engine.process.process_group import running_members, wait_group_ended
from unit.engine.process.reaping import children_reaped
from unit.engine.process.test_supervisor import is_alive

__all__ = ["children_reaped"]


def start_sleeper(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({seconds})"], start_new_session=True
    )


async def test_a_group_ends_with_its_last_process_and_zombies_do_not_count() -> None:
    """Nobody has asked for the exit code of the process when the wait returns."""
    sleeper = start_sleeper(0.5)
    try:
        assert running_members(sleeper.pid) == [sleeper.pid]
        assert await wait_group_ended(sleeper.pid, 10) == []
        assert str(sleeper.pid) in os.listdir("/proc")
        assert not is_alive(sleeper.pid)
    finally:
        sleeper.kill()
        sleeper.wait()


async def test_a_process_that_does_not_end_is_returned_after_the_time() -> None:
    sleeper = start_sleeper(30)
    try:
        assert await wait_group_ended(sleeper.pid, 0.1) == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.fixture
def slow_kill(monkeypatch: pytest.MonkeyPatch) -> float:
    """SIGKILL to a group takes this long, as for a process inside a driver; in seconds."""
    real, delay_s = os.killpg, 0.6

    def killpg(group: int, number: int) -> None:
        threading.Timer(delay_s, lambda: real(group, number)).start()

    monkeypatch.setattr(engine_process.os, "killpg", killpg)
    return delay_s


async def started(folder: Path) -> tuple[EngineProcess, int]:
    """An engine of one process, which leads no group of its own, and the process id."""
    pid_file = folder / "pid"
    program = (
        f"import os, time, pathlib; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))"
    )
    # A child of the engine does not end with the guard by itself.
    child = [sys.executable, "-c", f"{program}; time.sleep(60)"]
    engine = f"import subprocess, sys; subprocess.run({child!r})"
    command = EngineCommand(
        arguments=(sys.executable, "-c", engine),
        environment={},
        socket=folder / "e.sock",
        control_socket=None,
    )
    process = await EngineProcess.start(command, folder / "e.log", folder / "run")
    async with asyncio.timeout(20):
        while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return process, int(pid_file.read_text())


async def test_stopping_waits_for_processes_that_the_guard_left(
    tmp_path: Path, slow_kill: float
) -> None:
    process, child = await started(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    began_s = time.monotonic()
    await process.stop()
    assert not is_alive(child)
    assert time.monotonic() - began_s >= slow_kill - 0.1


async def test_a_process_that_outlives_sigkill_is_logged(
    tmp_path: Path,
    slow_kill: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(engine_process, "_GROUP_END_TIMEOUT_S", 0.1)
    process, child = await started(tmp_path)
    group = process.pid
    os.kill(group, signal.SIGKILL)
    await process.stop()
    assert f"processes {child} of an engine" in caplog.text
    assert await wait_group_ended(group, 10) == []

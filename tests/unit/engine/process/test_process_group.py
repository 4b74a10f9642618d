"""The end of a process group is waited for, with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process import engine_process
from paceline.runtime.engine.process.engine_process import EngineProcess
from paceline.runtime.engine.process.process_group import running_members, wait_group_ended
from unit.engine.process.reaping import children_reaped
from unit.engine.process.test_supervisor import is_alive

__all__ = ["children_reaped"]


def start_waiter() -> subprocess.Popen[bytes]:
    """A process that ends with its standard input."""
    return subprocess.Popen(
        [sys.executable, "-SE", "-c", "input()"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def test_a_group_ends_with_its_last_process_and_zombies_do_not_count() -> None:
    """Nobody has asked for the exit code of the process when the wait returns."""
    with start_waiter() as waiter:
        assert waiter.stdin is not None
        assert running_members(waiter.pid) == [waiter.pid]
        waiting = asyncio.create_task(wait_group_ended(waiter.pid, 60))
        # sleep: the wait has found the process once; on a slow machine it may not have
        await asyncio.sleep(0.1)
        assert not waiting.done()
        waiter.stdin.close()
        assert await waiting == []
        assert str(waiter.pid) in os.listdir("/proc")
        assert not is_alive(waiter.pid)


async def test_a_process_that_does_not_end_is_returned_after_the_time() -> None:
    with start_waiter() as waiter:
        assert await wait_group_ended(waiter.pid, 0.1) == [waiter.pid]


class HeldKill:
    """SIGKILL to a group has its effect when the test says so, as for a process in a driver."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._killpg = os.killpg
        self._sent: tuple[int, int] | None = None
        self.is_sent = asyncio.Event()
        monkeypatch.setattr(engine_process.os, "killpg", self._hold)

    def _hold(self, group: int, number: int) -> None:
        if number == 0:  # whether the group exists
            self._killpg(group, 0)
            return
        self._sent = group, number
        self.is_sent.set()

    def let_go(self) -> None:
        assert self._sent is not None
        self._killpg(*self._sent)


@pytest.fixture
async def held_kill(monkeypatch: pytest.MonkeyPatch) -> HeldKill:
    return HeldKill(monkeypatch)


async def started(folder: Path) -> tuple[EngineProcess, int]:
    """An engine of one process, which leads no group of its own, and the process id."""
    pid_file = folder / "pid"
    program = (
        f"import os, time, pathlib; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))"
    )
    # A child of the engine does not end with the guard by itself.
    child = [sys.executable, "-c", f"{program}; time.sleep(600)"]
    engine = f"import subprocess, sys; subprocess.run({child!r})"
    command = EngineCommand(
        arguments=(sys.executable, "-c", engine),
        environment={},
        socket=folder / "e.sock",
        control_socket=None,
    )
    process = await EngineProcess.start(command, folder / "e.log", folder / "run")
    async with asyncio.timeout(60):
        while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # sleep: the pause between two looks decides nothing
    return process, int(pid_file.read_text())


async def test_stopping_waits_for_processes_that_the_guard_left(
    tmp_path: Path, held_kill: HeldKill
) -> None:
    process, child = await started(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    stopping = asyncio.create_task(process.stop())
    await asyncio.wait_for(held_kill.is_sent.wait(), 60)
    # sleep: a stop that does not wait has returned by then; on a slow machine less is seen
    await asyncio.sleep(0.1)
    assert not stopping.done()
    held_kill.let_go()
    await stopping
    assert not is_alive(child)


async def test_a_process_that_outlives_sigkill_is_logged(
    tmp_path: Path,
    held_kill: HeldKill,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(engine_process, "_GROUP_END_TIMEOUT_S", 0.1)
    process, child = await started(tmp_path)
    group = process.pid
    os.kill(group, signal.SIGKILL)
    await process.stop()
    assert f"processes {child} of an engine" in caplog.text
    held_kill.let_go()
    assert await wait_group_ended(group, 60) == []

"""An engine changes from one supervisor to another without a stop."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.engine_process import EngineProcess
from paceline.runtime.engine.process.supervisor import EngineSupervisor
from unit.engine.process.reaping import children_reaped
from unit.engine.process.test_supervisor import (
    folder,
    is_alive,
    make_supervisor,
    pids,
    running,
    until,
)

__all__ = ["children_reaped", "folder"]


def adopter_of(
    supervisor: EngineSupervisor, run_folder: Path, command: EngineCommand | None = None
) -> EngineSupervisor:
    """A supervisor of the same engine, as another process would create it with its command."""
    engine = supervisor.running_engine
    assert engine is not None
    return EngineSupervisor(
        "engine-0",
        command or supervisor.command,
        served_name="fake",
        log=engine.log,
        run_folder=run_folder,
        start_timeout_s=60,
        adopted=replace(engine, guard_pipe=os.dup(engine.guard_pipe)),
    )


async def test_a_handed_over_engine_serves_on_and_belongs_to_its_new_owner(folder: Path) -> None:
    old = make_supervisor(folder)
    async with running(old) as old_task:
        new = adopter_of(old, folder / "run")
        async with running(new) as new_task:
            assert new.status == old.status
            old.release()
            old_task.cancel()
            await asyncio.gather(old_task, return_exceptions=True)
            assert old.status.state == "ready"  # requests in flight still reach the engine
            ((server, child),) = pids(folder)
            assert is_alive(server)
            assert is_alive(child)
            assert new.status.num_restarts == 0

            os.kill(server, signal.SIGKILL)
            await until(lambda: len(pids(folder)) == 2 and new.status.state == "ready")
            assert new.status.num_restarts == 1
            assert not new_task.done()
            (_, (server, child)) = pids(folder)
    assert not is_alive(server)
    assert not is_alive(child)


async def test_an_old_owner_does_not_restart_what_it_handed_over(folder: Path) -> None:
    old = make_supervisor(folder)
    async with running(old) as old_task:
        engine = old.running_engine
        assert engine is not None
        copy = os.dup(engine.guard_pipe)
        old.release()
        os.close(copy)  # the new owner ends the engine
        await asyncio.wait_for(old_task, 60)
    ((server, _),) = pids(folder)
    assert not is_alive(server)


async def test_an_engine_that_starts_or_has_ended_cannot_be_handed_over(folder: Path) -> None:
    supervisor = make_supervisor(folder)
    assert supervisor.running_engine is None
    async with running(supervisor):
        assert supervisor.running_engine is not None
    assert supervisor.running_engine is None


async def test_an_engine_that_ends_at_the_moment_of_its_release_is_not_restarted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new owner finds it ended, and starts another one."""
    old = make_supervisor(folder)
    real_stop = EngineProcess.stop

    async def stop(process: EngineProcess) -> None:
        assert old.status.state == "down"
        old.release()
        await real_stop(process)

    monkeypatch.setattr(EngineProcess, "stop", stop)
    async with running(old) as old_task:
        os.kill(pids(folder)[0][0], signal.SIGKILL)
        await asyncio.wait_for(old_task, 60)
    assert len(pids(folder)) == 1


async def test_an_adopted_engine_that_has_ended_is_started_with_the_command_of_its_owner(
    folder: Path,
) -> None:
    """The folder of the old one, and the one around it, are removed."""
    (folder / "old").mkdir()
    old = make_supervisor(folder, run_folder=folder / "old" / "engine-0")
    async with running(old):
        new_command = replace(old.command, arguments=(*old.command.arguments, "unused"))
        new = adopter_of(old, folder / "run", new_command)
        old.release()
        async with running(new):
            assert new.command == old.command
            os.kill(pids(folder)[0][0], signal.SIGKILL)
            await until(lambda: len(pids(folder)) == 2 and new.status.state == "ready")
            assert new.command == new_command
            assert not (folder / "old").exists()
    assert not (folder / "run").exists()

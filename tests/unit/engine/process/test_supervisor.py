"""The supervisor keeps an engine running, and no process of the engine survives.

The engine is `fake_engine.py`, a process with a child; guard, processes and signals are real.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from polling import until, wait_until

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.engine_process import EngineProcess
from paceline.runtime.engine.process.guard import STOPPED
from paceline.runtime.engine.process.supervisor import EngineFailed, EngineSupervisor

FAKE = Path(__file__).with_name("fake_engine.py")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path, because the paths of Unix sockets are limited."""
    return tmp_path_factory.mktemp("s")


def make_supervisor(
    folder: Path, mode: str = "", run_folder: Path | None = None, **options: Any
) -> EngineSupervisor:
    socket = folder / "e.sock"
    command = EngineCommand(
        arguments=(sys.executable, str(FAKE), str(socket), str(folder / "pids"), mode),
        environment={},
        socket=socket,
        control_socket=folder / "c.sock",
    )
    return EngineSupervisor(
        "engine-0",
        command,
        served_name="fake",
        log=folder / "log" / "e.log",
        run_folder=run_folder or folder / "run",
        start_timeout_s=60,
        max_restart_delay_s=600,
        **options,
    )


@asynccontextmanager
async def running(supervisor: EngineSupervisor) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(supervisor.run())
    try:
        async with asyncio.timeout(60):
            await supervisor.wait_ready()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pids(folder: Path) -> list[tuple[int, int]]:
    """(server, child) of each start so far."""
    lines = (folder / "pids").read_text().splitlines()
    return [(int(server), int(child)) for server, child in map(str.split, lines)]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_ready_after_health_and_warm_up(folder: Path) -> None:
    supervisor = make_supervisor(folder)
    assert supervisor.status.state == "starting"
    async with running(supervisor):
        assert supervisor.status.state == "ready"
        assert supervisor.status.max_model_len == 77
        assert supervisor.status.version == "0.32.0"
        assert supervisor.status.num_restarts == 0


async def test_the_steps_of_a_start_are_reported(folder: Path) -> None:
    """The guard writes the log, perhaps after the engine answers."""
    steps: list[tuple[str, str]] = []
    log = folder / "log" / "e.log"

    async def write_late() -> None:
        await until(lambda: "Costs" in log.read_text())
        with log.open("a") as file:
            file.write("[x.py:91] Costs: checked\n")

    supervisor = make_supervisor(
        folder, on_progress=lambda *step: steps.append(step), before_ready=write_late
    )
    async with running(supervisor):
        assert steps[0] == ("engine-0", f"starting vLLM (log: {log})")
        assert sorted(steps[1:]) == [
            ("engine-0", "loading the model"),
            ("engine-0", "step times: checked"),
            ("engine-0", "step times: measured 9 kinds"),
            ("engine-0", "warming up"),
        ]


@pytest.mark.parametrize("mode", ["", "ignore-term", "daemon"])
async def test_no_process_survives_a_stop(
    folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the engine ignores SIGTERM or its child is in another session."""
    supervisor = make_supervisor(folder, mode)
    async with running(supervisor):
        ((server, child),) = pids(folder)
        assert is_alive(server)
        assert is_alive(child)
        files = [Path(f"/dev/shm/__KMP_REGISTERED_LIB_{pid}_0") for pid in (server, child)]
        for file in files:
            file.touch()  # as Intel's OpenMP does for each process
    assert not is_alive(server)
    assert not is_alive(child)
    assert not any(file.exists() for file in files)
    assert supervisor.status.state == "down"
    assert supervisor.log.read_text().endswith(f"\n{STOPPED}\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_engine_is_restarted_after_any_exit(folder: Path, number: signal.Signals) -> None:
    """After SIGTERM the engine exits with code 0, which counts like any other exit."""
    supervisor = make_supervisor(folder)
    async with running(supervisor):
        ((server, child),) = pids(folder)
        os.kill(server, number)
        await until(lambda: supervisor.status.state == "down")
        await until(lambda: supervisor.status.state == "ready")
        assert supervisor.status.num_restarts == 1
        assert not is_alive(child)
        assert len(pids(folder)) == 2


async def test_an_engine_reported_as_hanging_is_restarted(folder: Path) -> None:
    async with running(supervisor := make_supervisor(folder)):
        first = supervisor.pid
        supervisor.restart("its streams stood still")
        supervisor.restart("reported twice")
        await until(lambda: supervisor.status.num_restarts == 1)
        await until(lambda: supervisor.status.state == "ready")
        assert supervisor.pid != first
        assert supervisor.status.num_restarts == 1


async def test_restarts_that_were_asked_for_have_no_delay_and_failures_keep_theirs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as two swaps of the draft within a minute."""
    monkeypatch.setattr("paceline.runtime.engine.process.backoff.FIRST_DELAY_S", 600.0)
    async with running(supervisor := make_supervisor(folder)):
        for number in (1, 2):
            supervisor.restart("an operator restarts it", is_planned=True)
            await until(lambda number=number: supervisor.status.num_restarts == number)  # type: ignore[misc]
            await until(lambda: supervisor.status.state == "ready")
        assert supervisor.status.num_planned_restarts == 2
        assert "Its last errors" not in caplog.text
        supervisor.restart("its streams stood still")
        await until(lambda: "restarting in 600.0 s" in caplog.text)
        assert supervisor.status.state == "down"
        assert supervisor.status.num_planned_restarts == 2


async def test_a_planned_restart_is_never_down_and_waits_for_the_old_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With memory still in use, the new engine would not start."""
    left: list[int] = []
    real_start = EngineProcess.start

    async def start(*arguments: Any) -> EngineProcess:
        started = (folder / "pids").exists()
        left.extend(
            pid for pair in (pids(folder) if started else []) for pid in pair if is_alive(pid)
        )
        return await real_start(*arguments)

    monkeypatch.setattr(EngineProcess, "start", start)
    async with running(supervisor := make_supervisor(folder, "daemon")):
        states = set()
        supervisor.restart("an operator restarts it", is_planned=True)
        async with asyncio.timeout(60):
            while len(pids(folder)) < 2 or supervisor.status.state != "ready":
                states.add(supervisor.status.state)
                await asyncio.sleep(0.005)  # sleep: it starts for longer, however slow the machine
        assert states == {"ready", "starting"}
        assert supervisor.status.num_planned_restarts == supervisor.status.num_restarts == 1
    assert left == []


async def test_the_engine_is_restarted_when_the_guard_is_killed(folder: Path) -> None:
    supervisor = make_supervisor(folder)
    async with running(supervisor):
        ((server, child),) = pids(folder)
        assert supervisor.pid is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        await until(lambda: supervisor.status.num_restarts == 1)
        await until(lambda: supervisor.status.state == "ready")
        assert not is_alive(server)
        assert not is_alive(child)


async def test_a_restart_refused_by_the_system_is_retried(folder: Path) -> None:
    """ENOSPC once, as on a full disk; the next start works."""
    supervisor = make_supervisor(folder)
    async with running(supervisor) as task:
        real_start = EngineProcess.start
        refusals = iter([OSError(errno.ENOSPC, "No space left on device")])

        async def start(*arguments: Any) -> EngineProcess:
            for error in refusals:
                raise error
            return await real_start(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EngineProcess, "start", start)
            ((server, _),) = pids(folder)
            os.kill(server, signal.SIGKILL)
            await until(lambda: "ended with exit code" in supervisor.status.reason)
            await until(lambda: "No space left" in supervisor.status.reason)
            await until(lambda: supervisor.status.state == "ready")
        assert not supervisor.status.reason
        assert not task.done()
        assert supervisor.status.num_restarts == 2


async def test_a_first_start_refused_by_the_system_raises(folder: Path) -> None:
    """The command line is longer than Linux allows."""
    supervisor = make_supervisor(folder)
    supervisor.change_command(replace(supervisor.command, arguments=("x" * 3_000_000,)))
    with pytest.raises(EngineFailed, match=r"could not be started: .*too long"):
        await supervisor.run()


def mode_of(supervisor: EngineSupervisor) -> str:
    return supervisor.command.arguments[4]


def in_mode(supervisor: EngineSupervisor, mode: str) -> EngineCommand:
    command = supervisor.command
    return replace(command, arguments=(*command.arguments[:4], mode))


async def test_a_changed_command_is_used_from_the_next_start_on(folder: Path) -> None:
    """Also when the engine ends by itself."""
    async with running(supervisor := make_supervisor(folder)):
        supervisor.change_command(in_mode(supervisor, "daemon"))
        assert (mode_of(supervisor), supervisor.is_change_pending) == ("", True)
        ((server, _),) = pids(folder)
        os.kill(server, signal.SIGKILL)
        await until(lambda: supervisor.status.num_restarts == 1)
        await until(lambda: supervisor.status.state == "ready")
        assert (mode_of(supervisor), supervisor.is_change_pending) == ("daemon", False)
        assert supervisor.change_failure is None


async def test_an_engine_that_does_not_start_as_changed_starts_as_before(folder: Path) -> None:
    async with running(supervisor := make_supervisor(folder)):
        supervisor.change_command(in_mode(supervisor, "fail"))
        supervisor.restart("its command was changed")
        await until(lambda: supervisor.change_failure is not None)
        await until(lambda: supervisor.status.state == "ready")
        assert (mode_of(supervisor), supervisor.is_change_pending) == ("", False)
        assert supervisor.change_failure is not None
        assert "exit code 1: ValueError: no memory for it" in supervisor.change_failure
        assert supervisor.status.num_restarts == 2


async def test_a_failed_first_start_reports_the_engines_errors(folder: Path) -> None:
    supervisor = make_supervisor(folder, "fail")
    with pytest.raises(EngineFailed) as caught:
        await supervisor.run()
    assert "exit code 1" in str(caught.value)
    assert "\n    ValueError: no memory for it" in str(caught.value)
    assert str(folder / "log" / "e.log") in str(caught.value)
    assert STOPPED not in supervisor.log.read_text()


def test_no_process_survives_when_the_owner_is_killed(folder: Path) -> None:
    """After SIGKILL the supervising process cannot clean up."""
    script = f"""
import asyncio, sys
sys.path[:] = {[str(FAKE.parent), *sys.path]!r}
from pathlib import Path
from test_supervisor import make_supervisor
async def main():
    supervisor = make_supervisor(Path({str(folder)!r}))
    task = asyncio.create_task(supervisor.run())
    await supervisor.wait_ready()
    print("ready", flush=True)
    await task
asyncio.run(main())
"""
    (folder / "run").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    ((server, child),) = pids(folder)
    owner.kill()
    owner.wait()
    wait_until(lambda: not (is_alive(server) or is_alive(child) or (folder / "run").exists()))
    owner.stdout.close()

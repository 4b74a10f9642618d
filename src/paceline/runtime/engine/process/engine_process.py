"""Start, adopt, hand over and stop one engine process with its guard, and read its last errors.

Each engine has a folder of its own for sockets and temporary files, which is removed with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import sys
from pathlib import Path

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.adopted_guard import AdoptedGuard
from paceline.runtime.engine.process.guard import STOPPED, remove_run_folder
from paceline.runtime.engine.process.process_group import wait_group_ended

logger = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 15.0
"""Twice the guard's grace time (5 s), plus a margin."""
_GROUP_END_TIMEOUT_S = 30.0
"""For processes that were killed and have not ended. Chosen empirically: a driver that frees the
memory of a GPU takes seconds; one that takes longer hangs, and only a start shows whether the
memory is free."""

_PREFIX = re.compile(
    r"^(\([^)]*pid=\d+\) )?((ERROR|WARNING|INFO|DEBUG) [\d-]+ [\d:]+ \[[^\]]*\] ?)?"
)
"""The start of vLLM's log lines: "(EngineCore pid=123) ERROR 11-21 02:48:05 [core.py:72] "."""
_MAX_LINE_CHARS = 400
_ERROR_LINE = re.compile(r"^(\w+(\.\w+)*(Error|Exception|Interrupt)\b|.*: error: )")


class EngineProcess:
    """One run of an engine."""

    def __init__(
        self,
        guard: asyncio.subprocess.Process | AdoptedGuard,
        guard_pipe: int,
        log: Path,
        run_folder: Path,
    ) -> None:
        self._guard = guard
        self._guard_pipe: int | None = guard_pipe
        self.log = log
        self.run_folder = run_folder

    @classmethod
    async def start(cls, command: EngineCommand, log: Path, run_folder: Path) -> EngineProcess:
        """Start the engine under its own guard. Removes sockets of an earlier run.

        `run_folder` is created if it does not exist; the folder that contains it must exist.
        """
        _make_room(command, log, run_folder)
        read_end, guard_pipe = os.pipe()  # close-on-exec, so no other process inherits it
        try:
            guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "paceline.runtime.engine.process.guard"),
                *("--log", str(log), "--run-folder", str(run_folder)),
                "--",
                *command.arguments,
                stdin=read_end,
                env=start_environment(command),
                start_new_session=True,
            )
        except BaseException:
            os.close(guard_pipe)
            raise
        finally:
            os.close(read_end)
        return cls(guard, guard_pipe, log, run_folder)

    @classmethod
    def adopt(cls, pid: int, guard_pipe: int, log: Path, run_folder: Path) -> EngineProcess:
        """Take over a running engine. Raises `ProcessLookupError` if its guard has ended.

        `pid` is that of the guard; `guard_pipe` is a copy of its pipe, which is owned here from
        the call on.
        """
        try:
            guard = AdoptedGuard(pid)
        except BaseException:
            os.close(guard_pipe)
            remove_run_folder(run_folder)
            raise
        return cls(guard, guard_pipe, log, run_folder)

    @property
    def guard_pipe(self) -> int | None:
        """The pipe whose last copy keeps the guard from ending the engine; None after the end."""
        return self._guard_pipe

    def release(self) -> None:
        """Leave the engine to the process that holds another copy of the pipe."""
        if self._guard_pipe is not None:
            os.close(self._guard_pipe)
            self._guard_pipe = None

    @property
    def pid(self) -> int:
        """Process id of the guard, the leader of the engine's process group."""
        return self._guard.pid

    async def wait(self) -> int | None:
        """Return the exit code when the engine and all its descendants have ended.

        None if the code is unknown, which is that of an adopted engine.
        """
        code = await self._guard.wait()
        self._sweep()
        return code

    async def stop(self) -> None:
        """End the engine, first with SIGTERM, and remove its folder.

        Returns when all its processes have ended, so that the next engine finds the memory free. A
        process that does not end after SIGKILL is logged, and left after `_GROUP_END_TIMEOUT_S`.
        """
        if self._guard_pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # the guard has ended already
                os.write(self._guard_pipe, b"s")
            os.close(self._guard_pipe)
            self._guard_pipe = None
        try:
            await asyncio.wait_for(self._guard.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            self._sweep()
            await self._guard.wait()
        finally:
            self._remove_folder()
        self._sweep()
        # The guard has waited for them, unless it was killed or has given up.
        left = await wait_group_ended(self._guard.pid, _GROUP_END_TIMEOUT_S)
        if left:
            logger.error(
                "processes %s of an engine (log: %s) have not ended %g s after SIGKILL, probably "
                "in a driver; they may still hold memory that the next start needs",
                ", ".join(map(str, left)),
                self.log,
                _GROUP_END_TIMEOUT_S,
            )

    def _remove_folder(self) -> None:
        if isinstance(self._guard, AdoptedGuard):
            remove_run_folder(self.run_folder)
        else:  # the folder around it belongs to this process, which may start the engine again
            shutil.rmtree(self.run_folder, ignore_errors=True)

    def _sweep(self) -> None:
        """Kill the rest of the group: there is none unless the guard itself was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)

    def last_errors(self) -> list[str]:
        """Return the latest errors in the engine's log."""
        return last_errors(read_tail(self.log))


def start_environment(command: EngineCommand) -> dict[str, str]:
    """The environment that an engine gets which this process starts now."""
    return {**os.environ, **command.environment}


def read_environment(pid: int) -> dict[str, str] | None:
    """The environment that a process was started with; None if it cannot be read, as on systems
    without /proc."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    variables = (entry.partition("=") for entry in os.fsdecode(data).split("\0"))
    return {name: value for name, separator, value in variables if separator}


def _make_room(command: EngineCommand, log: Path, run_folder: Path) -> None:
    """Create the folder; remove the sockets of an earlier run; rename its log to `….1`."""
    run_folder.mkdir(mode=0o700, exist_ok=True)
    for socket in (command.socket, command.control_socket):
        if socket is not None:
            socket.unlink(missing_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))


def read_tail(log: Path, max_bytes: int = 64 * 1024) -> str:
    """Return the end of the log; empty if there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - max_bytes))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def last_errors(text: str, max_lines: int = 4) -> list[str]:
    """Return the error lines of vLLM's output, without prefixes and stack frames.

    Each of vLLM's processes reports the same fault; equal lines are kept once. Without error lines,
    the last lines are returned.
    """
    lines = [_PREFIX.sub("", line).rstrip() for line in text.splitlines() if line != STOPPED]
    errors = []
    for index, line in enumerate(lines):
        if _ERROR_LINE.match(line.strip()):
            errors += [line.strip(), *_continuation(lines[index + 1 : index + 3])]
    # "See root cause above" has no information of its own.
    informative = [line for line in errors if "root cause" not in line.lower()] or errors
    chosen = list(dict.fromkeys(informative)) or [line for line in lines if line.strip()]
    return [line[:_MAX_LINE_CHARS] for line in chosen[-max_lines:]]


def _continuation(lines: list[str]) -> list[str]:
    """Return indented lines after an error, where pydantic gives the cause, without its links."""
    return [
        line.partition(" [type=")[0].strip()
        for line in lines
        if line[:1].isspace() and not line.strip().startswith(("For further information", "File "))
    ]

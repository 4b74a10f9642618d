"""How is one engine process started, watched and ended?

A shell around the guard (see `guard`): starting it, letting go of it, and reading the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from pathlib import Path

from paceline.engine.launch.command import EngineCommand

_STOP_TIMEOUT_S = 15.0
"""The guard's grace (5 s), twice, and some air."""

# What vLLM's lines begin with: "(EngineCore pid=123) ERROR 11-21 02:48:05 [core.py:72] ".
_PREFIX = re.compile(
    r"^(\([^)]*pid=\d+\) )?((ERROR|WARNING|INFO|DEBUG) [\d-]+ [\d:]+ \[[^\]]*\] ?)?"
)
_MAX_LINE = 400
_ERROR_LINE = re.compile(r"^(\w+(\.\w+)*(Error|Exception|Interrupt)\b|.*: error: )")


class EngineProcess:
    """One run of an engine."""

    def __init__(self, guard: asyncio.subprocess.Process, lifeline: int, log: Path) -> None:
        self._guard = guard
        self._lifeline: int | None = lifeline
        self.log = log

    @classmethod
    async def start(cls, command: EngineCommand, log: Path, run_folder: Path) -> EngineProcess:
        """Start the engine under a guard of its own. Removes sockets of an earlier run."""
        _clear(command, log)
        read_end, lifeline = os.pipe()  # not inherited by anything else: close-on-exec
        try:
            guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "paceline.engine.process.guard"),
                *("--log", str(log), "--run-folder", str(run_folder)),
                "--",
                *command.arguments,
                stdin=read_end,
                env={**os.environ, **command.environment},
                start_new_session=True,
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(read_end)
        return cls(guard, lifeline, log)

    @property
    def pid(self) -> int:
        """Process id of the guard, which leads the engine's process group."""
        return self._guard.pid

    async def wait(self) -> int:
        """The exit code, once the engine and all it started are gone."""
        code = await self._guard.wait()
        self._sweep()
        return code

    async def stop(self) -> None:
        """End the engine, gently at first. Returns when nothing of it is left."""
        if self._lifeline is not None:
            with contextlib.suppress(BrokenPipeError):  # the guard has ended already
                os.write(self._lifeline, b"s")
            os.close(self._lifeline)
            self._lifeline = None
        try:
            await asyncio.wait_for(self._guard.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            self._sweep()
            await self._guard.wait()
        self._sweep()

    def _sweep(self) -> None:
        """Kill what is left of the group: nothing, unless the guard itself was killed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)

    def last_words(self) -> list[str]:
        return last_errors(read_tail(self.log))


def _clear(command: EngineCommand, log: Path) -> None:
    """Make room: sockets of an earlier run go, its log is kept beside the new one."""
    for socket in (command.socket, command.control_socket):
        if socket is not None:
            socket.unlink(missing_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))


def read_tail(log: Path, max_bytes: int = 64 * 1024) -> str:
    """The end of the log; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - max_bytes))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""


def last_errors(text: str, max_lines: int = 4) -> list[str]:
    """The lines of vLLM's output that say what went wrong, without prefixes and stack frames.

    vLLM reports one fault several times, in each of its processes; the same words are kept once.
    With no such line the last lines stand in for them.
    """
    lines = [_PREFIX.sub("", line).rstrip() for line in text.splitlines()]
    errors = []
    for index, line in enumerate(lines):
        if _ERROR_LINE.match(line.strip()):
            errors += [line.strip(), *_continuation(lines[index + 1 : index + 3])]
    # "See root cause above" says nothing.
    telling = [line for line in errors if "root cause" not in line.lower()] or errors
    chosen = list(dict.fromkeys(telling)) or [line for line in lines if line.strip()]
    return [line[:_MAX_LINE] for line in chosen[-max_lines:]]


def _continuation(lines: list[str]) -> list[str]:
    """Indented lines after an error: pydantic says there what was wrong, and then its own news."""
    return [
        line.partition(" [type=")[0].strip()
        for line in lines
        if line[:1].isspace() and not line.strip().startswith(("For further information", "File "))
    ]

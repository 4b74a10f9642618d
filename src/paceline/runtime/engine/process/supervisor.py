"""Keep one engine running: start it, warm it up, watch it, and restart it after any exit.

Owns the engine's state, which other parts read from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.backoff import MAX_DELAY_S, Backoff
from paceline.runtime.engine.process.changeable_command import ChangeableCommand
from paceline.runtime.engine.process.engine_probe import EngineProbe, EngineProbeFailed
from paceline.runtime.engine.process.engine_process import EngineProcess
from paceline.runtime.engine.process.ready_watch import (
    HEALTH_TIMEOUT_S,
    RestartRequest,
    RestartRequested,
    watch_ready_engine,
)
from paceline.runtime.engine.process.start_steps import StartSteps

logger = logging.getLogger(__name__)

EngineState = Literal["starting", "ready", "down"]

_POLL_S = 0.1


async def _nothing() -> None:
    return


class EngineFailed(Exception):
    """The first start failed; the message has the engine's last errors and the path of its log."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The current state of one engine."""

    state: EngineState = "starting"
    max_model_len: int | None = None
    """Context length in tokens; None until the engine has been ready."""
    revision: str | None = None
    """Fingerprint of the model that it serves; None when unknown."""
    num_restarts: int = 0
    """All of them; those of the field below are among them."""
    num_planned_restarts: int = 0
    """Asked for by an operator or a draft swap."""
    version: str | None = None
    """Of the vLLM that it runs; None when unknown."""
    reason: str = ""
    """Why it is down, or starts once more; empty otherwise."""


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that serves and can be handed over to another Paceline process."""

    name: str
    served_name: str
    pid: int
    """Process id of its guard."""
    guard_pipe: int
    """File descriptor; see `EngineProcess.guard_pipe`."""
    command: EngineCommand
    run_folder: Path
    log: Path
    status: EngineStatus


class EngineSupervisor:
    """Keeps the engine called `name` running while `run` runs."""

    def __init__(
        self,
        name: str,
        command: EngineCommand,
        *,
        served_name: str,
        log: Path,
        run_folder: Path,
        start_timeout_s: float,
        max_restart_delay_s: float = MAX_DELAY_S,
        on_progress: Callable[[str, str], None] = lambda name, step: None,
        before_ready: Callable[[], Awaitable[None]] = _nothing,
        adopted: RunningEngine | None = None,
    ) -> None:
        """Create a supervisor that is not running yet.

        `run_folder` is the folder of this engine alone; it is removed with the engine.

        `adopted` is an engine to begin with, which serves already: it counts as ready, `run`
        watches it, and starts `command` when it has ended. Without `run` it is left alone.

        `on_progress` is called with the name and a message for a person. `before_ready` is awaited
        at each start, restarts included, after the warm-up and before the engine takes traffic. It
        must not raise.
        """
        self.name = name
        self._commands = (
            ChangeableCommand(command)
            if adopted is None
            else ChangeableCommand(adopted.command, following=command)
        )
        self._adopted = adopted
        self._is_released = False
        self.served_name = served_name
        self.log = log
        self._run_folder = run_folder
        self._start_timeout_s = start_timeout_s
        self._max_restart_delay_s = max_restart_delay_s
        self._on_progress = on_progress
        self._before_ready = before_ready
        self._has_served = asyncio.Event()
        if adopted is not None:
            self._has_served.set()
        self._restart_request: asyncio.Future[RestartRequest] | None = None
        self._process: EngineProcess | None = None
        self.status = EngineStatus() if adopted is None else adopted.status

    @property
    def command(self) -> EngineCommand:
        """Of the current engine."""
        return self._commands.current

    @property
    def next_command(self) -> EngineCommand:
        """Of the next start."""
        return self._commands.at_next_start

    @property
    def is_change_pending(self) -> bool:
        """Whether the next start uses another command than the current engine."""
        return self._commands.is_change_pending

    @property
    def change_failure(self) -> str | None:
        """Why the engine has gone back to the command before the last change; None if it has
        not."""
        return self._commands.failure

    def change_command(self, command: EngineCommand) -> None:
        """Use `command` from the next start on.

        If the engine does not become ready with it, it is started as before the change again.
        """
        self._commands.change(command)

    def undo_change(self) -> None:
        """Use the command from before the last change from the next start on."""
        self._commands.undo()

    @property
    def running_engine(self) -> RunningEngine | None:
        """The engine as another process would adopt it; None unless it is ready."""
        process = self._process
        if self.status.state != "ready" or process is None or process.guard_pipe is None:
            return None
        return RunningEngine(
            name=self.name,
            served_name=self.served_name,
            pid=process.pid,
            guard_pipe=process.guard_pipe,
            command=self.command,
            run_folder=process.run_folder,
            log=process.log,
            status=self.status,
        )

    def release(self) -> None:
        """Leave the engine to another process, which has a copy of its pipe.

        It is neither stopped nor restarted from here on. The status of a ready engine stays as it
        is; an engine that ends or starts at this moment is ended, because the copy is of an earlier
        pipe.
        """
        self._is_released = True
        if self._process is not None:
            self._process.release()

    @property
    def pid(self) -> int | None:
        """Leader of the engine's process group; None if no engine runs."""
        return self._process.pid if self._process else None

    def restart(self, reason: str, *, is_planned: bool = False) -> None:
        """Restart the engine, which the caller found hanging. Does nothing unless it is ready.

        `is_planned`: it did not hang; the restart is no failure, has no delay, and the engine
        counts as starting while it is stopped.
        """
        request = self._restart_request
        if request is not None and not request.done():
            request.set_result(RestartRequest(reason, is_planned))

    async def wait_ready(self) -> None:
        """Return once the engine has been ready for the first time."""
        await self._has_served.wait()

    async def run(self) -> None:
        """Run until cancelled; raise EngineFailed if the first start fails.

        An engine that has served before is restarted without limit, with increasing delays.
        """
        backoff = Backoff(max_delay_s=self._max_restart_delay_s)
        while not self._is_released:
            last_errors: list[str] = []
            is_planned = False
            try:
                process = await self._start_or_adopt()
            except (
                OSError
            ) as error:  # the disk, memory or process limit is exhausted, perhaps for a while
                run = _Run(None, f"could not be started: {error}")
            else:
                self._process = process
                try:
                    run = await self._run_once(process)
                    is_planned = run.is_planned
                finally:
                    if not self._is_released:
                        self._to("starting" if is_planned else "down")
                        # Shielded: a second Ctrl-C must not leave an engine running.
                        await asyncio.shield(process.stop())
                if self._is_released:
                    return
                last_errors = process.last_errors()
                self._process = None
            if run.ready_for_s is None:
                self._commands.failed(_in_one_line(run.reason, last_errors, self.log))
            if not self._has_served.is_set():
                raise EngineFailed(_report(self.name, run.reason, last_errors, self.log))
            if is_planned and run.ready_for_s is not None:
                backoff = backoff.after_planned_restart(run.ready_for_s)
                logger.warning("engine %s %s", self.name, run.reason)
            else:
                self._to("down", _in_one_line(run.reason, last_errors, self.log))
                backoff = backoff.after(run.ready_for_s)
                _log_failure(_report(self.name, run.reason, last_errors, self.log), backoff)
                await asyncio.sleep(backoff.delay_s)
            self._count_restart(is_planned=is_planned)

    async def _start_or_adopt(self) -> EngineProcess:
        adopted, self._adopted = self._adopted, None
        if adopted is not None:
            return EngineProcess.adopt(
                adopted.pid, adopted.guard_pipe, adopted.log, adopted.run_folder
            )
        return await EngineProcess.start(self._commands.start(), self.log, self._run_folder)

    async def _run_once(self, process: EngineProcess) -> _Run:
        """Watch one run until it ends."""
        is_planned = False
        ended = asyncio.create_task(process.wait())
        ready_at_s: float | None = None
        try:
            async with EngineProbe(self.command.socket) as probe:
                if self.status.state != "ready":  # else it was adopted
                    self._on_progress(self.name, f"starting vLLM (log: {self.log})")
                    await _unless(ended, self._become_ready(probe))
                ready_at_s = time.monotonic()
                request = self._restart_request = asyncio.get_running_loop().create_future()
                self._has_served.set()
                self._commands.became_ready()
                self._to("ready")
                logger.info("engine %s is ready", self.name)
                await _unless(ended, watch_ready_engine(probe, request))
        except _Ended as end:
            reason = "ended" if end.code is None else f"ended with exit code {end.code}"
        except RestartRequested as end:
            reason, is_planned = f"was stopped: {end.request.reason}", end.request.is_planned
        except EngineProbeFailed as failure:
            reason = f"was stopped: {failure}"
        finally:
            self._restart_request = None
            ended.cancel()
        ready_for_s = None if ready_at_s is None else time.monotonic() - ready_at_s
        return _Run(ready_for_s, reason, is_planned)

    async def _become_ready(self, probe: EngineProbe) -> None:
        steps = StartSteps(self.log)
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while not await _is_healthy(probe):
                    self._report_steps(steps)
                    await asyncio.sleep(_POLL_S)
                max_model_len = await probe.fetch_max_model_len()
                revision = await probe.fetch_revision()
                version = await probe.fetch_version()
                self._report_steps(steps)
                self._on_progress(self.name, "warming up")
                await probe.warm_up(self.served_name, max_model_len)
                await self._before_ready()
                self._report_steps(steps)  # the guard may write the log late
        except TimeoutError:
            raise EngineProbeFailed(
                f"not ready within {self._start_timeout_s:g} s; "
                "increase engine.start_timeout_s if it needs longer"
            ) from None
        self.status = replace(
            self.status,
            max_model_len=max_model_len or self.status.max_model_len,
            revision=revision,
            version=version,
        )

    def _report_steps(self, steps: StartSteps) -> None:
        for step in steps.read_new():
            self._on_progress(self.name, step)

    def _to(self, state: EngineState, reason: str = "") -> None:
        self.status = replace(self.status, state=state, reason=reason)

    def _count_restart(self, *, is_planned: bool) -> None:
        self.status = replace(
            self.status,
            state="starting",
            num_restarts=self.status.num_restarts + 1,
            num_planned_restarts=self.status.num_planned_restarts + is_planned,
        )


async def _is_healthy(probe: EngineProbe) -> bool:
    with contextlib.suppress(EngineProbeFailed):
        await probe.check_health(HEALTH_TIMEOUT_S)
        return True
    return False


@dataclass(frozen=True, slots=True)
class _Run:
    """How a run of the engine went."""

    ready_for_s: float | None
    """None: it was never ready."""
    reason: str
    """Why it ended."""
    is_planned: bool = False


class _Ended(Exception):
    def __init__(self, code: int | None) -> None:
        self.code = code


async def _unless(ended: asyncio.Task[int | None], work: Coroutine[Any, Any, None]) -> None:
    """Await `work`; cancel it and raise `_Ended` as soon as the process ends."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise _Ended(ended.result())
        task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, EngineProbeFailed, RestartRequested):
            await task


def _log_failure(report: str, backoff: Backoff) -> None:
    looping = f" (failure {backoff.num_failures} in a row; the cause is probably permanent)"
    logger.log(
        logging.ERROR if backoff.is_looping else logging.WARNING,
        "%s; restarting in %.1f s%s",
        report,
        backoff.delay_s,
        looping if backoff.is_looping else "",
    )


def _in_one_line(reason: str, last_errors: list[str], log: Path) -> str:
    errors = f": {'; '.join(last_errors)}" if last_errors else ""
    return f"{reason}{errors} (log: {log}.1)"


def _report(name: str, reason: str, last_errors: list[str], log: Path) -> str:
    lines = "".join(f"\n    {line}" for line in last_errors)
    return f"engine {name} {reason}. Its last errors (full log: {log}):{lines}"

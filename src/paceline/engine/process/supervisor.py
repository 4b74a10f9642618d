"""Is the engine up, and if not, what is being done about it?

Keeps one engine running: starts it, waits until it is ready, warms it up, watches it, starts it
again after any exit. Owns the engine's state, which others read from memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paceline.engine.launch.command import EngineCommand
from paceline.engine.process.backoff import Backoff
from paceline.engine.process.engine_probe import EngineProbe, EngineProbeFailed
from paceline.engine.process.engine_process import EngineProcess

logger = logging.getLogger(__name__)

EngineState = Literal["starting", "ready", "down"]

_POLL_S = 0.1
_HEALTH_PERIOD_S = 2.0
_HEALTH_TIMEOUT_S = 10.0
_MAX_HEALTH_FAILURES = 3
"""Three in a row, some 30 s of silence or refusal: vLLM's front end hangs, or knows that its engine
core has died. Not a busy engine: the front end answers /health from its event loop, which that does
not hold up. For the same reason an engine core that hangs without dying is not noticed here, but by
whoever reads its streams; see `EngineSupervisor.restart`."""


async def _nothing() -> None:
    return


class EngineFailed(Exception):
    """The engine could not be started at all; the message holds its last words and its log."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine as of now."""

    state: EngineState = "starting"
    max_model_len: int | None = None
    """Known once it has been ready."""
    num_restarts: int = 0
    reason: str = ""
    """Why it is down."""


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
        on_progress: Callable[[str, str], None] = lambda name, step: None,
        before_ready: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """`on_progress` is called with the name and what is going on, for a person to read.

        `before_ready` is awaited at each start, restarts included, when the engine is up and
        warm and takes no traffic yet. It must not raise.
        """
        self.name = name
        self.command = command
        self.served_name = served_name
        self.log = log
        self._run_folder = run_folder
        self._start_timeout_s = start_timeout_s
        self._on_progress = on_progress
        self._before_ready = before_ready
        self._has_served = asyncio.Event()
        self._found_hung: asyncio.Future[str] | None = None
        self._process: EngineProcess | None = None
        self.status = EngineStatus()

    @property
    def pid(self) -> int | None:
        """Leader of the engine's process group; None when none runs."""
        return self._process.pid if self._process else None

    def restart(self, reason: str) -> None:
        """Start the engine anew: it was found hung from outside. Nothing unless it is ready."""
        if self._found_hung is not None and not self._found_hung.done():
            self._found_hung.set_result(reason)

    async def wait_ready(self) -> None:
        """Return once the engine has been ready for the first time."""
        await self._has_served.wait()

    async def run(self) -> None:
        """Until cancelled. EngineFailed when the very first start fails.

        An engine that has served before is started again for ever, ever more slowly.
        """
        backoff = Backoff()
        while True:
            last_words: list[str] = []
            try:
                process = await EngineProcess.start(self.command, self.log, self._run_folder)
            except OSError as error:  # no disk, memory or process left: that may pass
                ready_for_s, reason = None, f"could not be started: {error}"
            else:
                self._process = process
                try:
                    ready_for_s, reason = await self._run_once(process)
                finally:
                    self._to("down")
                    # Shielded: a second Ctrl-C must not leave an engine behind.
                    await asyncio.shield(process.stop())
                last_words = process.last_words()
                self._process = None
            if not self._has_served.is_set():
                raise EngineFailed(_report(self.name, reason, last_words, self.log))
            backoff = backoff.after(ready_for_s)
            level = logging.ERROR if backoff.is_looping else logging.WARNING
            logger.log(
                level,
                "%s; starting again in %.1f s%s",
                _report(self.name, reason, last_words, self.log),
                backoff.delay_s,
                f" (failure {backoff.num_failures} in a row; this may not heal by itself)"
                if backoff.is_looping
                else "",
            )
            self._to("down", reason=reason)
            await asyncio.sleep(backoff.delay_s)
            self._to("starting", num_restarts=self.status.num_restarts + 1)

    async def _run_once(self, process: EngineProcess) -> tuple[float | None, str]:
        """From start to end: how long it was ready (None: never), and why it ended."""
        ended = asyncio.create_task(process.wait())
        ready_at_s: float | None = None
        try:
            async with EngineProbe(self.command.socket) as probe:
                self._on_progress(self.name, f"loading the model (log: {self.log})")
                await _unless(ended, self._become_ready(probe))
                ready_at_s = time.monotonic()
                hung = self._found_hung = asyncio.get_running_loop().create_future()
                self._has_served.set()
                self._to("ready", max_model_len=self.status.max_model_len)
                logger.info("engine %s is ready", self.name)
                await _unless(ended, _watch(probe, hung))
        except _Ended as end:
            reason = f"ended with exit code {end.code}"
        except EngineProbeFailed as failure:
            reason = f"was stopped: {failure}"
        finally:
            self._found_hung = None
            ended.cancel()
        ready_for_s = None if ready_at_s is None else time.monotonic() - ready_at_s
        return ready_for_s, reason

    async def _become_ready(self, probe: EngineProbe) -> None:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                while True:
                    with contextlib.suppress(EngineProbeFailed):
                        await probe.check_health(_HEALTH_TIMEOUT_S)
                        break
                    await asyncio.sleep(_POLL_S)
                max_model_len = await probe.fetch_max_model_len()
                self._on_progress(self.name, "warming up")
                await probe.warm_up(self.served_name, max_model_len)
                await self._before_ready()
        except TimeoutError:
            raise EngineProbeFailed(
                f"not ready within {self._start_timeout_s:g} s; "
                "set engine.start_timeout_s if it needs longer"
            ) from None
        self._to("starting", max_model_len=max_model_len)

    def _to(
        self,
        state: EngineState,
        *,
        max_model_len: int | None = None,
        num_restarts: int | None = None,
        reason: str = "",
    ) -> None:
        self.status = EngineStatus(
            state=state,
            max_model_len=max_model_len or self.status.max_model_len,
            num_restarts=self.status.num_restarts if num_restarts is None else num_restarts,
            reason=reason,
        )


class _Ended(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


async def _unless(ended: asyncio.Task[int], work: Coroutine[Any, Any, None]) -> None:
    """Do `work`, but stop it and raise `_Ended` as soon as the process ends."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise _Ended(ended.result())
        task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, EngineProbeFailed):
            await task


async def _watch(probe: EngineProbe, hung: asyncio.Future[str]) -> None:
    """Return never; EngineProbeFailed once the engine is sick, or somebody has found it hung."""
    health = asyncio.create_task(_watch_health(probe))
    try:
        either: set[asyncio.Future[Any]] = {hung, health}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if hung.done():
            raise EngineProbeFailed(hung.result())
        health.result()
    finally:
        health.cancel()
        await asyncio.gather(health, return_exceptions=True)


async def _watch_health(probe: EngineProbe) -> None:
    """Return never; EngineProbeFailed once the engine has been silent or sick for too long."""
    num_failures = 0
    while True:
        await asyncio.sleep(_HEALTH_PERIOD_S)
        try:
            await probe.check_health(_HEALTH_TIMEOUT_S)
            num_failures = 0
        except EngineProbeFailed:
            num_failures += 1
            if num_failures >= _MAX_HEALTH_FAILURES:
                raise


def _report(name: str, reason: str, last_words: list[str], log: Path) -> str:
    said = "".join(f"\n    {line}" for line in last_words)
    return f"engine {name} {reason}. Its last words (all of them in {log}):{said}"

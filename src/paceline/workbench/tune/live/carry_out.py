"""Carry out a search: start the servers that it needs, run its trials, keep the state.

Results that the state holds are not measured again, and no server is started for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from paceline.foundation.load.config import BenchError
from paceline.workbench.tune.search import Outcome, Round, RoundResult, ServerFailure, search
from paceline.workbench.tune.state import TuneState
from paceline.workbench.tune.values import Measurement, RestartConfig, Trial


class TrialServer(Protocol):
    """A server that is ready."""

    async def run(self, trial: Trial) -> Measurement:
        """Run a trial of a cell with this server's configuration.

        Failed requests do not raise. Raises BenchError or TuneError if the server cannot be
        measured.
        """
        ...


class Launcher(Protocol):
    """Starts servers."""

    def start(self, restart: RestartConfig) -> AbstractAsyncContextManager[TrialServer]:
        """A warmed-up server with this configuration, which is stopped when the context ends.

        Entering raises BenchError if the server does not become ready.
        """
        ...


OnRound = Callable[[Round, TuneState], None]


class _Servers:
    """At most one running server at a time."""

    def __init__(self, launcher: Launcher, state: TuneState) -> None:
        self._launcher = launcher
        self._state = state
        self._restart: RestartConfig | None = None
        self._server: TrialServer | None = None
        self._stack = contextlib.AsyncExitStack()

    async def server(self, restart: RestartConfig) -> TrialServer:
        """The server with this configuration; one with another is stopped first."""
        if self._server is None or self._restart != restart:
            await self.stop()
            self._state.add_start(restart)
            self._server = await self._stack.enter_async_context(self._launcher.start(restart))
            self._restart = restart
        return self._server

    async def stop(self) -> None:
        """Stop the server, if one runs."""
        self._server = None
        await self._stack.aclose()


async def carry_out(
    state: TuneState,
    launcher: Launcher,
    on_round: OnRound = lambda one, state: None,
    on_trial: Callable[[Trial, Measurement], None] = lambda trial, measurement: None,
) -> Outcome:
    """Run the search of the state's problem to its end. Cancellation leaves the state complete."""
    running = search(state.problem)
    servers = _Servers(launcher, state)
    try:
        one = next(running)
        while True:
            on_round(one, state)
            one = running.send(await _results(one, state, servers, on_trial))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    finally:
        await servers.stop()


async def _results(
    one: Round,
    state: TuneState,
    servers: _Servers,
    on_trial: Callable[[Trial, Measurement], None],
) -> RoundResult:
    for trial in one.trials:
        if trial in state.measurements:
            continue
        if one.restart in state.failures:
            return ServerFailure(state.failures[one.restart])
        try:
            server = await servers.server(one.restart)
            measurement = await server.run(trial)
        except BenchError as error:
            await servers.stop()
            state.add_failure(one.restart, str(error))
            return ServerFailure(str(error))
        state.add_measurement(trial, measurement)
        on_trial(trial, measurement)
    return [state.measurements[trial] for trial in one.trials]

"""The simulated server: how is it opened and closed, and how does it fail as a whole?"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from paceline.mock_vllm.engine.clockwork import Clockwork
from paceline.mock_vllm.engine.engine import Engine
from paceline.mock_vllm.faults.fault_book import Fault, FaultBook, FaultKind
from paceline.mock_vllm.http.app import App
from paceline.mock_vllm.http.replies import AnswerSender
from paceline.mock_vllm.http.wire import FLUSH_S, Connection, Exchange
from paceline.mock_vllm.request_log import RequestLog
from paceline.mock_vllm.settings import MockVllmSettings

_STALLING = (FaultKind.HANG, FaultKind.FREEZE, FaultKind.STALL)
"""Faults that keep the reply that met them from sending what it has."""


class MockVllm:
    """A simulated vLLM server in this process.

    async with MockVllm(MockVllmSettings(model="m")) as server:
        ...  # server.url

    A fault that kills the process only plays dead here: the port closes and all connections are
    reset. `spawn_mock_vllm` gives a process that really dies.
    """

    def __init__(
        self,
        settings: MockVllmSettings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: Path | None = None,
        faults: Sequence[Fault] = (),
        ledger_path: Path | None = None,
        die: Callable[[int | None], None] | None = None,
    ) -> None:
        """Port 0 takes a free one; `socket_path` opens a Unix socket instead.

        `die` ends the process with an exit code, or by SIGKILL when that is None.
        """
        self.settings = settings or MockVllmSettings()
        self._host, self._port, self._socket_path = host, port, socket_path
        self._script = list(faults)
        self._ledger_path = ledger_path
        self._die = die
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._unanswered: list[Exchange] = []
        self._is_hung = False
        self._is_frozen = False
        self._timers: list[asyncio.TimerHandle] = []
        self._stalled: dict[FaultKind, list[AnswerSender]] = {kind: [] for kind in _STALLING}

    async def __aenter__(self) -> MockVllm:
        self._loop = asyncio.get_running_loop()
        self._clockwork = Clockwork(Engine(self.settings))
        self.ledger = RequestLog(self._ledger_path)
        self._book = FaultBook(self.settings.seed)
        self._app = App(self.settings, self._clockwork, self.ledger, self._book, self)
        await self._listen()
        self.set_faults(self._script)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._opening is not None:
            self._opening.cancel()
        for timer in self._timers:
            timer.cancel()
        self.ledger.end_all("stopped")
        self._play_dead()
        self.ledger.close()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        """The port that it listens on; 0 for a Unix socket."""
        return 0 if self._socket_path else self._port

    @property
    def url(self) -> str:
        return "http://localhost" if self._socket_path else f"http://{self._host}:{self._port}"

    async def _listen(self) -> None:
        def protocol() -> Connection:
            return Connection(self.route, self._connections)

        if self._socket_path:
            self._socket_path.unlink(missing_ok=True)
            self._listener = await self._loop.create_unix_server(
                protocol, str(self._socket_path), backlog=4096
            )
        else:
            self._listener = await self._loop.create_server(
                protocol, self._host, self._port, backlog=4096
            )
            self._port = self._listener.sockets[0].getsockname()[1]

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            if self._socket_path:
                self._socket_path.unlink(missing_ok=True)

    def route(self, exchange: Exchange) -> None:
        """Answer now, or when the server is no longer frozen."""
        if self._is_frozen:
            self._unanswered.append(exchange)
        else:
            self._app.route(exchange)

    def set_faults(self, faults: list[Fault]) -> None:
        for fault in faults:
            if fault.after_s:
                self._later(fault.after_s, partial(self._set_fault, fault))
            else:
                self._set_fault(fault)

    def _set_fault(self, fault: Fault) -> None:
        entry = self._book.add(fault)
        if fault.strikes_at_once and self._book.strike(entry):
            self.strike(fault)

    def clear_faults(self) -> None:
        self._book.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        for kind in FaultKind:
            self._recover(kind)

    def strike(self, fault: Fault, reply: AnswerSender | None = None) -> None:
        kind = fault.kind
        if kind is FaultKind.DIE:
            self._freeze()
            self.ledger.end_all("died")
            self._loop.call_later(FLUSH_S, self._die or self._play_dead, fault.exit_code)
            return
        if kind is FaultKind.SLOW:
            self._clockwork.engine.slow_factor = fault.factor
        elif kind is FaultKind.REFUSE:
            self._stop_listening()
        elif kind is FaultKind.FREEZE:
            self._freeze()
        elif kind is FaultKind.HANG:
            self._is_hung = True
            self._clockwork.stop()
        if reply is not None and kind in _STALLING:
            reply.stall()
            self._stalled[kind].append(reply)
            if kind is FaultKind.STALL:
                self._clockwork.hold(reply.sequences)
        if fault.duration_s is not None:
            self._later(fault.duration_s, lambda: self._recover(kind))

    def _freeze(self) -> None:
        self._is_frozen = True
        self._clockwork.stop()

    def _recover(self, kind: FaultKind) -> None:
        """End a fault that lasts; harmless when there is none."""
        if kind is FaultKind.SLOW:
            self._clockwork.engine.slow_factor = 1.0
        elif kind is FaultKind.REFUSE and self._listener is None:
            self._opening = self._loop.create_task(self._listen())
        elif kind is FaultKind.HANG:
            self._is_hung = False
        elif kind is FaultKind.FREEZE:
            self._is_frozen = False
        if not self._is_hung and not self._is_frozen:
            self._clockwork.go_on()
        stalled = self._stalled.get(kind, [])
        while stalled:
            reply = stalled.pop()
            reply.resume()
            self._clockwork.release(reply.sequences)
        while self._unanswered and not self._is_frozen:
            exchange = self._unanswered.pop(0)
            if not exchange.is_gone:
                self.route(exchange)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay_s, act))

    def _play_dead(self, _: int | None = None) -> None:
        self._stop_listening()
        self._clockwork.stop()
        for connection in list(self._connections):
            connection.reset()


def die_in_earnest(exit_code: int | None) -> NoReturn:
    """End this process at once: by SIGKILL, or with an exit code."""
    if exit_code is None:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(exit_code or 0)

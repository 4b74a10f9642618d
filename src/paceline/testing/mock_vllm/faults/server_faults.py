"""Inject the faults of the whole server, and stalls of single answers, and end them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from paceline.testing.mock_vllm.engine.engine_runner import EngineRunner
from paceline.testing.mock_vllm.faults.fault import Fault, FaultKind
from paceline.testing.mock_vllm.faults.fault_book import FaultBook
from paceline.testing.mock_vllm.http.answer_sender import AnswerSender
from paceline.testing.mock_vllm.http.wire import FLUSH_S, Exchange
from paceline.testing.mock_vllm.request_log import RequestLog

_STALLING_KINDS = (FaultKind.HANG, FaultKind.FREEZE, FaultKind.STALL)
"""Faults during which the answer that triggered them sends nothing, not even finished tokens."""


class FaultableServer(Protocol):
    """The parts of the server that a fault can break."""

    async def listen(self) -> None:
        """Listen again, on the same port or socket."""

    def stop_listening(self) -> None:
        """Refuse new connections. Does nothing if the server does not listen."""

    def die(self, exit_code: int | None) -> None:
        """End the process, by SIGKILL if `exit_code` is None."""

    def route(self, exchange: Exchange) -> None:
        """Answer a request, or hold it while the server is frozen."""


class ServerFaults:
    """Adds scripted faults, injects those of the whole server, and clears them."""

    def __init__(
        self,
        book: FaultBook,
        runner: EngineRunner,
        request_log: RequestLog,
        server: FaultableServer,
    ) -> None:
        self._book = book
        self._runner = runner
        self._request_log = request_log
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.is_frozen = False
        """While true, the server holds every request instead of answering it."""
        self._is_hung = False
        self._held: list[Exchange] = []
        self._stalled: dict[FaultKind, list[AnswerSender]] = {kind: [] for kind in _STALLING_KINDS}
        self._timers: list[asyncio.TimerHandle] = []
        self._listening: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Cancel all timers."""
        if self._listening is not None:
            self._listening.cancel()
        self._cancel_timers()

    def add(self, faults: list[Fault]) -> None:
        """Add the faults of a script, each after its `after_s`."""
        for fault in faults:
            if fault.after_s:
                self._call_later(fault.after_s, partial(self._add_now, fault))
            else:
                self._add_now(fault)

    def _add_now(self, fault: Fault) -> None:
        entry = self._book.add(fault)
        if fault.is_immediate and self._book.trigger(entry):
            self.inject(fault)

    def clear(self) -> None:
        """Remove all faults and end those that are in effect."""
        self._book.clear()
        self._cancel_timers()
        for kind in FaultKind:
            self._recover(kind)

    def hold(self, exchange: Exchange) -> None:
        """Answer this request when the server is no longer frozen."""
        self._held.append(exchange)

    def inject(self, fault: Fault, sender: AnswerSender | None = None) -> None:
        """Inject a fault of `SERVER_KINDS`, or STALL; `sender` is the answer that triggered it."""
        kind = fault.kind
        if kind is FaultKind.DIE:
            self._freeze()
            self._request_log.end_all("died")
            self._loop.call_later(FLUSH_S, self._server.die, fault.exit_code)
            return
        if kind is FaultKind.SLOW:
            self._runner.engine.slow_factor = fault.factor
        elif kind is FaultKind.REFUSE:
            self._server.stop_listening()
        elif kind is FaultKind.FREEZE:
            self._freeze()
        elif kind is FaultKind.HANG:
            self._is_hung = True
            self._runner.pause()
        if sender is not None and kind in _STALLING_KINDS:
            sender.stall()
            self._stalled[kind].append(sender)
            if kind is FaultKind.STALL:
                self._runner.hold(sender.sequences)
        if fault.duration_s is not None:
            self._call_later(fault.duration_s, partial(self._recover, kind))

    def _freeze(self) -> None:
        self.is_frozen = True
        self._runner.pause()

    def _recover(self, kind: FaultKind) -> None:
        """End the fault of this kind. Does nothing if it is not in effect."""
        if kind is FaultKind.SLOW:
            self._runner.engine.slow_factor = 1.0
        elif kind is FaultKind.REFUSE:
            self._listening = self._loop.create_task(self._server.listen())
        elif kind is FaultKind.HANG:
            self._is_hung = False
        elif kind is FaultKind.FREEZE:
            self.is_frozen = False
        if not self._is_hung and not self.is_frozen:
            self._runner.resume()
        stalled = self._stalled.get(kind, [])
        while stalled:
            sender = stalled.pop()
            sender.resume()
            self._runner.release(sender.sequences)
        while self._held and not self.is_frozen:
            exchange = self._held.pop(0)
            if not exchange.is_disconnected:
                self._server.route(exchange)

    def _call_later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(self._loop.call_later(delay_s, act))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

"""One request in the engine: what is noted of it, and which faults strike it on the way?"""

from __future__ import annotations

from typing import Protocol

from paceline.mock_vllm.engine.clockwork import Clockwork
from paceline.mock_vllm.faults.fault_book import WHOLE_SERVER, Fault, FaultBook, FaultKind, SetFault
from paceline.mock_vllm.faults.misbehaviour import GOES_ON, spoil, spoil_whole
from paceline.mock_vllm.http.replies import AnswerSender
from paceline.mock_vllm.http.wire import Exchange
from paceline.mock_vllm.request_log import Record, RequestLog


class WholeServer(Protocol):
    """What holds all requests, for the faults that strike more than one answer."""

    def set_faults(self, faults: list[Fault]) -> None:
        """Take up a script: each fault when its time has come."""

    def clear_faults(self) -> None:
        """Forget all faults and end those that last."""

    def route(self, exchange: Exchange) -> None:
        """Answer now, or when the server answers again."""

    def strike(self, fault: Fault, reply: AnswerSender | None) -> None:
        """Do one of `WHOLE_SERVER`, which `reply` met, or STALL to `reply`."""


class Running:
    """Owns the reply's sequences: they end with it, however it ends."""

    def __init__(
        self,
        reply: AnswerSender,
        record: Record,
        clockwork: Clockwork,
        ledger: RequestLog,
        book: FaultBook,
        server: WholeServer,
    ) -> None:
        self._reply = reply
        self._record = record
        self._clockwork = clockwork
        self._ledger = ledger
        self._book = book
        self._server = server
        self._awaiting: list[SetFault] = []
        self._is_submitted = False
        reply.exchange.on_gone = self._gone
        reply.on_first_token = lambda: ledger.first_token(record)
        reply.on_progress = self._progress
        reply.on_finished = lambda: self._end("finished")

    def begin(self, faults: list[SetFault]) -> None:
        for entry in faults:
            if entry.fault.after_tokens is not None:
                self._awaiting.append(entry)
            elif not self._strike(entry):
                return
        self._is_submitted = True
        self._clockwork.submit(self._reply.sequences)

    def _progress(self) -> bool:
        """Strike what is due; False when the answer was broken off."""
        num_tokens = self._record.num_tokens = self._reply.num_sent_tokens
        for entry in list(self._awaiting):
            assert entry.fault.after_tokens is not None
            if num_tokens >= entry.fault.after_tokens:
                self._awaiting.remove(entry)
                if not self._strike(entry):
                    return False
        return True

    def _strike(self, entry: SetFault) -> bool:
        """Whether the answer goes on."""
        if not self._book.strike(entry):
            return True
        fault, exchange = entry.fault, self._reply.exchange
        if fault.kind in WHOLE_SERVER or fault.kind is FaultKind.STALL:
            self._server.strike(fault, self._reply)
            return self._record.ending is None
        if fault.kind in GOES_ON and self._reply.asked.stream:
            spoil(exchange, fault)
            return True
        self._stop(f"fault:{fault.kind}")
        (spoil if self._reply.asked.stream else spoil_whole)(exchange, fault)
        return False

    def _gone(self) -> None:
        self._stop("aborted")

    def _stop(self, ending: str) -> None:
        self._end(ending)
        self._reply.break_off()
        if self._is_submitted:
            self._clockwork.abort(self._reply.sequences)

    def _end(self, ending: str) -> None:
        record, reply = self._record, self._reply
        record.num_tokens = reply.num_sent_tokens
        if len(reply.sequences) == 1:
            record.answer_hash = f"{reply.sent_crc:08x}"
        self._ledger.end(record, ending)

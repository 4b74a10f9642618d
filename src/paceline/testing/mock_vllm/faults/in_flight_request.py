"""Run one request in the engine: record it, and inject the faults that it triggers."""

from __future__ import annotations

from paceline.testing.mock_vllm.engine.engine_runner import EngineRunner
from paceline.testing.mock_vllm.faults.answer_faults import (
    CONTINUING_KINDS,
    inject_into_stream,
    inject_into_whole_answer,
)
from paceline.testing.mock_vllm.faults.fault import SERVER_KINDS, FaultKind
from paceline.testing.mock_vllm.faults.fault_book import ActiveFault, FaultBook
from paceline.testing.mock_vllm.faults.server_faults import ServerFaults
from paceline.testing.mock_vllm.http.answer_sender import AnswerSender
from paceline.testing.mock_vllm.request_log import RequestLog, RequestRecord


class InFlightRequest:
    """Owns the sequences of one answer: however the answer ends, its sequences end too."""

    def __init__(
        self,
        sender: AnswerSender,
        record: RequestRecord,
        runner: EngineRunner,
        request_log: RequestLog,
        book: FaultBook,
        server_faults: ServerFaults,
    ) -> None:
        self._sender = sender
        self._record = record
        self._runner = runner
        self._request_log = request_log
        self._book = book
        self._server_faults = server_faults
        self._pending_faults: list[ActiveFault] = []
        self._is_submitted = False
        sender.exchange.on_disconnect = lambda: self._stop("aborted")
        sender.on_first_token = lambda: request_log.first_token(record)
        sender.on_progress = self._progress
        sender.on_finished = lambda: self._end("finished")

    def start(self, faults: list[ActiveFault]) -> None:
        """Submit the request to the engine, unless one of the faults ends it at once."""
        for entry in faults:
            if entry.fault.after_tokens is not None:
                self._pending_faults.append(entry)
            elif not self._inject(entry):
                return
        self._sender.announce()
        self._is_submitted = True
        self._runner.submit(self._sender.sequences)

    def _progress(self) -> bool:
        """Inject the faults that are due; returns False if the answer has ended."""
        num_tokens = self._record.num_tokens = self._sender.num_sent_tokens
        for entry in list(self._pending_faults):
            assert entry.fault.after_tokens is not None
            if num_tokens >= entry.fault.after_tokens:
                self._pending_faults.remove(entry)
                if not self._inject(entry):
                    return False
        return True

    def _inject(self, entry: ActiveFault) -> bool:
        """Return whether the answer continues."""
        if not self._book.trigger(entry):
            return True
        fault, exchange = entry.fault, self._sender.exchange
        if fault.kind in SERVER_KINDS or fault.kind is FaultKind.STALL:
            self._server_faults.inject(fault, self._sender)
            return self._record.ending is None
        is_stream = self._sender.request.stream
        if fault.kind in CONTINUING_KINDS and is_stream:
            inject_into_stream(exchange, fault)
            return True
        self._stop(f"fault:{fault.kind}")
        (inject_into_stream if is_stream else inject_into_whole_answer)(exchange, fault)
        return False

    def _stop(self, ending: str) -> None:
        self._end(ending)
        self._sender.stop()
        if self._is_submitted:
            self._runner.abort(self._sender.sequences)

    def _end(self, ending: str) -> None:
        record, sender = self._record, self._sender
        record.num_tokens = sender.num_sent_tokens
        if len(sender.sequences) == 1:
            record.answer_hash = f"{sender.sent_crc:08x}"
        self._request_log.end(record, ending)

"""How does one answer go wrong on the wire?

For the faults of a single request. Each leaves the exchange ended or broken, or, where the stream
goes on, as it was.
"""

from __future__ import annotations

from http import HTTPStatus

from paceline.mock_vllm.faults.fault_book import Fault, FaultKind
from paceline.mock_vllm.http.response_format import DONE, render_error, render_error_event
from paceline.mock_vllm.http.wire import Exchange

GOES_ON = frozenset({FaultKind.LONG_LINE, FaultKind.BAD_JSON})
"""After these the stream goes on; all others of this module end it."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
# As vLLM names its own errors; for others it takes the phrase
_KINDS = {500: "InternalServerError", 503: "ServiceUnavailableError"}
_TORN = b'data: {"id":"torn","object":'
_TORN_BODY = b'{"id":"torn","choices":[{"index":0,"text":"'


def spoil(exchange: Exchange, fault: Fault) -> None:
    """Do the fault to an answer that has or has not begun; it is not complete."""
    kind = fault.kind
    if kind is FaultKind.STATUS or (kind is FaultKind.ERROR_EVENT and not exchange.is_begun):
        status = fault.status if kind is FaultKind.STATUS else 500
        _refuse(exchange, status)
        return
    if kind is FaultKind.RESET:
        exchange.reset()
        return
    exchange.begin_stream()
    if kind is FaultKind.HALF_CLOSE:
        exchange.half_close()
    elif kind is FaultKind.TEAR:
        exchange.send(_TORN)
        exchange.close()
    elif kind is FaultKind.NO_DONE:
        exchange.end_stream()
    elif kind is FaultKind.BAD_CHUNKING:
        exchange.write(b"zz\r\ndata: {}\r\n")
        exchange.close()
    elif kind is FaultKind.LONG_LINE:
        exchange.send(b"data: " + b"x" * max(0, fault.size_bytes - 8) + b"\n\n")
    elif kind is FaultKind.BAD_JSON:
        exchange.send(b'data: {"id": "broken", "choices": [{\n\n')
    elif kind is FaultKind.ERROR_EVENT:
        text = "Internal server error"
        exchange.send(render_error_event(500, text, "InternalServerError"), DONE)
        exchange.end_stream()
    else:
        raise AssertionError(f"{kind} is no fault of a single answer.")


def spoil_whole(exchange: Exchange, fault: Fault) -> None:
    """The same for an answer that is not streamed: of what it has, only the head or a part."""
    if fault.kind in (FaultKind.STATUS, FaultKind.ERROR_EVENT, FaultKind.RESET):
        spoil(exchange, fault)
    elif fault.kind in (FaultKind.TEAR, FaultKind.HALF_CLOSE):
        exchange.promise(1000)
        exchange.write(_TORN_BODY)
        (exchange.close if fault.kind is FaultKind.TEAR else exchange.half_close)()
    elif fault.kind is FaultKind.BAD_CHUNKING:
        spoil(exchange, fault)
    else:
        size = fault.size_bytes if fault.kind is FaultKind.LONG_LINE else 0
        exchange.respond(200, _TORN_BODY + b"x" * size)


def _refuse(exchange: Exchange, status: int) -> None:
    phrase = _PHRASES.get(status, "Error")
    exchange.respond(status, render_error(status, phrase, _KINDS.get(status, phrase)))

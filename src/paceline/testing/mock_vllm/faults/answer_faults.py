"""Inject the faults that concern a single answer, as bytes on its connection.

After each of them the exchange has ended or its connection is broken, except after the faults of
`CONTINUING_KINDS` in a stream.
"""

from __future__ import annotations

from http import HTTPStatus

from paceline.testing.mock_vllm.faults.fault import Fault, FaultKind
from paceline.testing.mock_vllm.http.response_format import DONE, render_error, render_error_event
from paceline.testing.mock_vllm.http.wire import Exchange

CONTINUING_KINDS = frozenset({FaultKind.LONG_LINE, FaultKind.BAD_JSON})
"""A stream continues after these faults; all others of this module end it."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
# vLLM's names for its own errors; for other statuses it uses the phrase
_ERROR_TYPES = {500: "InternalServerError", 503: "ServiceUnavailableError"}
_ERROR_OBJECT = (
    b'{"object":"error","message":"Internal server error","type":"InternalServerError",'
    b'"param":null,"code":500}'
)
_TORN_EVENT = b'data: {"id":"torn","object":'
_TORN_BODY = b'{"id":"torn","choices":[{"index":0,"text":"'


def inject_into_stream(exchange: Exchange, fault: Fault) -> None:
    """Inject the fault into a stream, before its head or at any point before its end."""
    kind = fault.kind
    if kind is FaultKind.STATUS or (kind is FaultKind.ERROR_EVENT and not exchange.is_begun):
        _respond_with_error(exchange, fault.status if kind is FaultKind.STATUS else 500)
        return
    if kind is FaultKind.ERROR_OBJECT and not exchange.is_begun:
        exchange.respond(200, _ERROR_OBJECT)
        return
    if kind is FaultKind.RESET:
        exchange.reset()
        return
    exchange.begin_stream()
    if kind is FaultKind.HALF_CLOSE:
        exchange.half_close()
    elif kind is FaultKind.TEAR:
        exchange.send(_TORN_EVENT)
        exchange.close()
    elif kind in (FaultKind.NO_DONE, FaultKind.EMPTY):
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
    elif kind is FaultKind.ERROR_OBJECT:
        exchange.send(b"data: %b\n\n" % _ERROR_OBJECT, DONE)
        exchange.end_stream()
    else:
        raise AssertionError(f"{kind} is not a fault of a single answer.")


def inject_into_whole_answer(exchange: Exchange, fault: Fault) -> None:
    """Inject the fault instead of an unstreamed answer: an error or an incomplete body."""
    if fault.kind in (
        FaultKind.STATUS,
        FaultKind.ERROR_EVENT,
        FaultKind.ERROR_OBJECT,
        FaultKind.RESET,
        FaultKind.BAD_CHUNKING,
    ):
        inject_into_stream(exchange, fault)
    elif fault.kind is FaultKind.EMPTY:
        exchange.respond(200)
    elif fault.kind in (FaultKind.TEAR, FaultKind.HALF_CLOSE):
        exchange.begin_body(1000)
        exchange.write(_TORN_BODY)
        (exchange.close if fault.kind is FaultKind.TEAR else exchange.half_close)()
    else:
        size = fault.size_bytes if fault.kind is FaultKind.LONG_LINE else 0
        exchange.respond(200, _TORN_BODY + b"x" * size)


def _respond_with_error(exchange: Exchange, status: int) -> None:
    phrase = _PHRASES.get(status, "Error")
    exchange.respond(status, render_error(status, phrase, _ERROR_TYPES.get(status, phrase)))

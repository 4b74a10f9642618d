"""Which route answers what?

The routes of vLLM's server that matter to a gateway, and three of our own under /mock_vllm.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from paceline.mock_vllm.engine.clockwork import Clockwork
from paceline.mock_vllm.engine.metrics import CONTENT_TYPE, Metrics
from paceline.mock_vllm.faults.fault_book import WHOLE_SERVER, FaultBook, FaultKind, read_faults
from paceline.mock_vllm.faults.faulty_requests import Running, WholeServer
from paceline.mock_vllm.faults.misbehaviour import spoil_whole
from paceline.mock_vllm.http.refusals import Refused, read_body
from paceline.mock_vllm.http.replies import AnswerSender
from paceline.mock_vllm.http.request_parser import check_model, read_asked, read_prompt
from paceline.mock_vllm.http.response_format import (
    VLLM_VERSION,
    answer_id,
    render_error,
    render_models,
)
from paceline.mock_vllm.http.wire import Exchange
from paceline.mock_vllm.model.vocabulary import TOKEN_BYTES, VOCABULARY_SIZE, decode
from paceline.mock_vllm.request_log import RequestLog
from paceline.mock_vllm.settings import MockVllmSettings

_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
"""Paths that want the key; vLLM's own list, which leaves the others open."""


class App:
    """Answers exchanges."""

    def __init__(
        self,
        settings: MockVllmSettings,
        clockwork: Clockwork,
        ledger: RequestLog,
        book: FaultBook,
        server: WholeServer,
    ) -> None:
        self._settings = settings
        self._clockwork = clockwork
        self._ledger = ledger
        self._book = book
        self._server = server
        self._metrics = Metrics(clockwork.engine, settings.model)
        self._random = random.Random(settings.seed)
        # path → method → (name for faults, what answers)
        self._routes: dict[str, dict[str, tuple[str, Callable[[Exchange], None]]]] = {
            "/v1/chat/completions": {"POST": ("generate", self._generate)},
            "/v1/completions": {"POST": ("generate", self._generate)},
            "/v1/models": {"GET": ("models", self._models)},
            "/metrics": {"GET": ("metrics", self._scrape)},
            "/health": {"GET": ("health", self._empty)},
            "/ping": {"GET": ("health", self._empty), "POST": ("health", self._empty)},
            "/version": {"GET": ("", self._version)},
            "/tokenize": {"POST": ("", self._tokenize)},
            "/detokenize": {"POST": ("", self._detokenize)},
            "/mock_vllm/ledger": {"GET": ("", self._show_ledger)},
            "/mock_vllm/faults": {
                "GET": ("", self._show_faults),
                "POST": ("", self._set_faults),
                "DELETE": ("", self._clear_faults),
            },
        }

    def route(self, exchange: Exchange) -> None:
        methods = self._routes.get(exchange.path)
        if exchange.path.startswith(_GUARDED) and not self._knows(exchange):
            exchange.respond(401, b'{"error":"Unauthorized"}')
        elif methods is None:
            exchange.respond(404, b'{"detail":"Not Found"}')
        elif exchange.method not in methods:
            allow = (("allow", ", ".join(methods)),)
            exchange.respond(405, b'{"detail":"Method Not Allowed"}', extra=allow)
        else:
            name, answer = methods[exchange.method]
            try:
                if name in ("", "generate") or not self._spoils(exchange, name):
                    answer(exchange)
            except Refused as refused:
                body = render_error(refused.status, refused.message, refused.kind, refused.param)
                exchange.respond(refused.status, body)

    def _knows(self, exchange: Exchange) -> bool:
        scheme, _, key = exchange.headers.get("authorization", "").partition(" ")
        expected = self._settings.api_key
        return not expected or (scheme.lower() == "bearer" and key == expected)

    def _spoils(self, exchange: Exchange, name: str) -> bool:
        """Whether a fault took the place of an answer that is given at once."""
        for entry in self._book.matching(name):
            if not self._book.strike(entry):
                continue
            kind = entry.fault.kind
            if kind in WHOLE_SERVER:
                self._server.strike(entry.fault, None)
                if kind in (FaultKind.FREEZE, FaultKind.DIE):
                    self._server.route(exchange)  # where it waits, as all others now
                    return True
            elif kind is FaultKind.STALL:
                return True
            else:
                spoil_whole(exchange, entry.fault)
                return True
        return False

    def _empty(self, exchange: Exchange) -> None:
        exchange.respond(200, content_type=None)

    def _version(self, exchange: Exchange) -> None:
        exchange.respond(200, b'{"version":"%b"}' % VLLM_VERSION.encode())

    def _models(self, exchange: Exchange) -> None:
        exchange.respond(200, render_models(self._settings))

    def _scrape(self, exchange: Exchange) -> None:
        exchange.respond(200, self._metrics.render(), CONTENT_TYPE)

    def _tokenize(self, exchange: Exchange) -> None:
        body = _body(exchange)
        check_model(body, self._settings)
        ids = read_prompt(body)
        strings = [TOKEN_BYTES[token].decode("utf-8", "replace") for token in ids]
        answer = {
            "count": len(ids),
            "max_model_len": self._settings.max_model_len,
            "tokens": ids,
            "token_strs": strings if body.get("return_token_strs") else None,
        }
        exchange.respond(200, msgspec.json.encode(answer))

    def _detokenize(self, exchange: Exchange) -> None:
        body = _body(exchange)
        check_model(body, self._settings)
        ids = body.get("tokens")
        if not isinstance(ids, list) or not all(
            type(token) is int and 0 <= token < VOCABULARY_SIZE for token in ids
        ):
            text = "1 validation error:\n  tokens must be a list of ids of the vocabulary."
            raise Refused(400, text, "Bad Request", "body.tokens")
        text = decode(ids, skip_special_tokens=False)
        exchange.respond(200, msgspec.json.encode({"prompt": text}))

    def _show_ledger(self, exchange: Exchange) -> None:
        exchange.respond(200, self._ledger.render())

    def _show_faults(self, exchange: Exchange) -> None:
        exchange.respond(200, msgspec.json.encode({"faults": self._book.describe()}))

    def _set_faults(self, exchange: Exchange) -> None:
        try:
            faults = read_faults(msgspec.json.decode(exchange.body))
        except (ValueError, msgspec.DecodeError) as error:
            raise Refused(400, str(error)) from None
        # A fault may end the process, so the answer goes first.
        exchange.respond(200, msgspec.json.encode({"num_set": len(faults)}))
        self._server.set_faults(faults)

    def _clear_faults(self, exchange: Exchange) -> None:
        self._server.clear_faults()
        self._show_faults(exchange)

    def _generate(self, exchange: Exchange) -> None:
        asked = read_asked(
            _body(exchange),
            self._settings,
            is_chat=exchange.path == "/v1/chat/completions",
            drawn_seed=self._random.getrandbits(31),
        )
        request_id = exchange.headers.get("x-request-id", "")
        reply = AnswerSender(asked, self._settings, answer_id(asked, request_id), exchange)
        record = self._ledger.begin(
            request_id=request_id,
            route=exchange.path,
            prompts=asked.prompts,
            max_tokens=asked.sampling.max_tokens,
            seed=asked.seeds[0],
        )
        running = Running(reply, record, self._clockwork, self._ledger, self._book, self._server)
        running.begin(self._book.matching("generate"))


def _body(exchange: Exchange) -> dict[str, Any]:
    return read_body(exchange.body, exchange.headers.get("content-type", ""))

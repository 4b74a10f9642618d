"""Route requests to answers: vLLM's routes that a gateway uses, and the mock's own.

The mock's own routes are /mock_vllm/requests (the request log) and /mock_vllm/faults, and with
scripted speculation /admin/governor.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from paceline.testing.mock_vllm.answer_style import AnswerStyle
from paceline.testing.mock_vllm.engine.engine_runner import EngineRunner
from paceline.testing.mock_vllm.engine.metrics import CONTENT_TYPE, EngineMetrics
from paceline.testing.mock_vllm.faults.answer_faults import inject_into_whole_answer
from paceline.testing.mock_vllm.faults.fault import SERVER_KINDS, FaultKind
from paceline.testing.mock_vllm.faults.fault_book import FaultBook
from paceline.testing.mock_vllm.faults.fault_script import read_faults
from paceline.testing.mock_vllm.faults.in_flight_request import InFlightRequest
from paceline.testing.mock_vllm.faults.sampling_faults import with_sampling_faults
from paceline.testing.mock_vllm.faults.server_faults import ServerFaults
from paceline.testing.mock_vllm.http.answer_sender import AnswerSender
from paceline.testing.mock_vllm.http.field_checks import read_body
from paceline.testing.mock_vllm.http.governor_page import GovernorPage
from paceline.testing.mock_vllm.http.prompts import tokenize_prompt
from paceline.testing.mock_vllm.http.refusals import RequestRefused
from paceline.testing.mock_vllm.http.request_parser import check_model, parse_request
from paceline.testing.mock_vllm.http.response_format import (
    VLLM_VERSION,
    make_answer_id,
    render_error,
    render_models,
)
from paceline.testing.mock_vllm.http.responses import parse_response
from paceline.testing.mock_vllm.http.wire import Exchange
from paceline.testing.mock_vllm.model.vocabulary import (
    TOKEN_BYTES,
    VOCABULARY_SIZE,
    decode,
    pack_ids,
)
from paceline.testing.mock_vllm.request_log import RequestLog
from paceline.testing.mock_vllm.settings import MockVllmSettings

_PROTECTED_PATHS = ("/v1", "/v2", "/inference", "/cohere")
"""Prefixes of the paths that require the API key; vLLM's own list."""


class App:
    """Answers exchanges."""

    def __init__(
        self,
        settings: MockVllmSettings,
        runner: EngineRunner,
        request_log: RequestLog,
        book: FaultBook,
        server_faults: ServerFaults,
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._request_log = request_log
        self._book = book
        self._server_faults = server_faults
        self._metrics = EngineMetrics(runner.engine, settings.model, speculates=settings.drafts)
        self._random = random.Random(settings.seed)
        # path → method → (name of the route in fault scripts, handler)
        self._routes: dict[str, dict[str, tuple[str, Callable[[Exchange], None]]]] = {
            "/v1/chat/completions": {"POST": ("generate", self._generate)},
            "/v1/completions": {"POST": ("generate", self._generate)},
            "/v1/responses": {"POST": ("generate", self._generate)},
            "/v1/models": {"GET": ("models", self._show_models)},
            "/metrics": {"GET": ("metrics", self._show_metrics)},
            "/health": {"GET": ("health", self._respond_empty)},
            "/ping": {
                "GET": ("health", self._respond_empty),
                "POST": ("health", self._respond_empty),
            },
            "/version": {"GET": ("", self._show_version)},
            "/tokenize": {"POST": ("", self._tokenize)},
            "/detokenize": {"POST": ("detokenize", self._detokenize)},
            "/mock_vllm/requests": {"GET": ("", self._show_requests)},
            "/mock_vllm/faults": {
                "GET": ("", self._show_faults),
                "POST": ("", self._add_faults),
                "DELETE": ("", self._clear_faults),
            },
        }
        if settings.speculation is not None:
            self._governor = GovernorPage(runner.engine, settings.speculation)
            self._routes["/admin/governor"] = {
                "GET": ("", self._show_governor),
                "PATCH": ("", self._change_governor),
            }

    def route(self, exchange: Exchange) -> None:
        methods = self._routes.get(exchange.path)
        if exchange.path.startswith(_PROTECTED_PATHS) and not self._is_authorized(exchange):
            exchange.respond(401, b'{"error":"Unauthorized"}')
        elif methods is None:
            exchange.respond(404, b'{"detail":"Not Found"}')
        elif exchange.method not in methods:
            allow = (("allow", ", ".join(methods)),)
            exchange.respond(405, b'{"detail":"Method Not Allowed"}', extra=allow)
        else:
            name, handle = methods[exchange.method]
            try:
                if name in ("", "generate") or not self._inject_fault(exchange, name):
                    handle(exchange)
            except RequestRefused as refused:
                body = render_error(refused.status, refused.message, refused.kind, refused.param)
                exchange.respond(refused.status, body)

    def _is_authorized(self, exchange: Exchange) -> bool:
        scheme, _, key = exchange.headers.get("authorization", "").partition(" ")
        expected = self._settings.api_key
        return not expected or (scheme.lower() == "bearer" and key == expected)

    def _inject_fault(self, exchange: Exchange, name: str) -> bool:
        """Return whether a fault replaced the answer. Not for answers of the engine."""
        for entry in self._book.matching(name):
            if not self._book.trigger(entry):
                continue
            kind = entry.fault.kind
            if kind in SERVER_KINDS:
                self._server_faults.inject(entry.fault)
                if kind in (FaultKind.FREEZE, FaultKind.DIE):
                    self._server_faults.hold(exchange)
                    return True
            elif kind is FaultKind.STALL:
                return True
            else:
                inject_into_whole_answer(exchange, entry.fault)
                return True
        return False

    def _respond_empty(self, exchange: Exchange) -> None:
        exchange.respond(200, content_type=None)

    def _show_version(self, exchange: Exchange) -> None:
        exchange.respond(200, b'{"version":"%b"}' % VLLM_VERSION.encode())

    def _show_models(self, exchange: Exchange) -> None:
        exchange.respond(200, render_models(self._settings))

    def _show_metrics(self, exchange: Exchange) -> None:
        exchange.respond(200, self._metrics.render(), CONTENT_TYPE)

    def _tokenize(self, exchange: Exchange) -> None:
        body = _body(exchange)
        check_model(body, self._settings)
        ids = tokenize_prompt(body)
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
            text = (
                "1 validation error:\n  tokens must be a list of integers "
                f"in 0 to {VOCABULARY_SIZE - 1}."
            )
            raise RequestRefused(400, text, "Bad Request", "body.tokens")
        text = decode(ids, skip_special_tokens=False)
        exchange.respond(200, msgspec.json.encode({"prompt": text}))

    def _show_requests(self, exchange: Exchange) -> None:
        exchange.respond(200, self._request_log.render())

    def _show_faults(self, exchange: Exchange) -> None:
        exchange.respond(200, msgspec.json.encode({"faults": self._book.describe()}))

    def _add_faults(self, exchange: Exchange) -> None:
        try:
            faults = read_faults(msgspec.json.decode(exchange.body))
        except (ValueError, msgspec.DecodeError) as error:
            raise RequestRefused(400, str(error)) from None
        # A fault may end the process, so the answer is sent first.
        exchange.respond(200, msgspec.json.encode({"num_set": len(faults)}))
        self._server_faults.add(faults)

    def _clear_faults(self, exchange: Exchange) -> None:
        self._server_faults.clear()
        self._show_faults(exchange)

    def _show_governor(self, exchange: Exchange) -> None:
        exchange.respond(200, self._governor.render())

    def _change_governor(self, exchange: Exchange) -> None:
        exchange.respond(200, self._governor.change(_body(exchange)))

    def _generate(self, exchange: Exchange) -> None:
        body, seed = _body(exchange), self._random.getrandbits(31)
        if exchange.path == "/v1/responses":
            request = parse_response(body, self._settings, drawn_seed=seed)
        else:
            is_chat = exchange.path == "/v1/chat/completions"
            request = parse_request(body, self._settings, is_chat=is_chat, drawn_seed=seed)
        if AnswerStyle.UNSTREAMED in self._settings.answer_style:
            request = replace(request, stream=False)
        style_seed = zlib.crc32(pack_ids(request.prompts[0]), self._settings.seed)
        exchange.set_styles(self._settings.answer_style, style_seed)
        request, faults = with_sampling_faults(request, self._book)
        request_id = exchange.headers.get("x-request-id", "")
        answer_id = make_answer_id(request, request_id)
        sender = AnswerSender(request, self._settings, answer_id, exchange)
        record = self._request_log.begin(
            request_id=request_id,
            route=exchange.path,
            prompts=request.prompts,
            max_tokens=request.sampling.max_tokens,
            seed=request.seeds[0],
        )
        in_flight = InFlightRequest(
            sender, record, self._runner, self._request_log, self._book, self._server_faults
        )
        in_flight.start(faults)


def _body(exchange: Exchange) -> dict[str, Any]:
    return read_body(exchange.body, exchange.headers.get("content-type", ""))

"""The simulated server: which route answers what, and how is it opened and closed?"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import msgspec

from paceline.standin.asked import Asked, Refused, check_model, read_asked, read_body
from paceline.standin.dialect import (
    VLLM_VERSION,
    answer_id,
    render_error,
    render_models,
)
from paceline.standin.engine import Engine
from paceline.standin.replies import Reply
from paceline.standin.settings import StandInSettings
from paceline.standin.vocabulary import TOKEN_BYTES, VOCABULARY_SIZE, decode
from paceline.standin.wire import Connection, Exchange

_TICK_S = 0.001
"""Wake-ups are at least so far apart, so that many sequences share one. Chosen by hand: a
twentieth of the usual time per token."""


class StandIn:
    """A simulated vLLM server in this process.

    async with StandIn(StandInSettings(model="m")) as server:
        ...  # server.url
    """

    def __init__(
        self,
        settings: StandInSettings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: Path | None = None,
    ) -> None:
        """Port 0 takes a free one; `socket_path` opens a Unix socket instead."""
        self.settings = settings or StandInSettings()
        self._host, self._port, self._socket_path = host, port, socket_path
        self._engine = Engine(self.settings)
        self._random = random.Random(self.settings.seed)
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_s = 0.0
        self._routes = {
            "/v1/chat/completions": ("POST", lambda exchange: self._generate(exchange, True)),
            "/v1/completions": ("POST", lambda exchange: self._generate(exchange, False)),
            "/v1/models": ("GET", self._models),
            "/health": ("GET", self._empty),
            "/ping": ("GET POST", self._empty),
            "/version": ("GET", self._version),
            "/tokenize": ("POST", self._tokenize),
            "/detokenize": ("POST", self._detokenize),
        }

    async def __aenter__(self) -> StandIn:
        self._loop = asyncio.get_running_loop()
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections):
            connection.reset()
        await asyncio.sleep(0)

    @property
    def port(self) -> int:
        """The port that it listens on; 0 for a Unix socket."""
        return 0 if self._socket_path else self._port

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}" if not self._socket_path else "http://localhost"

    async def _listen(self) -> None:
        def protocol() -> Connection:
            return Connection(self._route, self._connections)

        if self._socket_path:
            self._listener = await self._loop.create_unix_server(
                protocol, self._socket_path, backlog=4096
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
            if self._socket_path and self._socket_path.exists():
                os.unlink(self._socket_path)

    def _route(self, exchange: Exchange) -> None:
        methods, answer = self._routes.get(exchange.path, ("", None))
        if answer is None:
            body = render_error(404, "Not Found", "Not Found")
            exchange.respond(404, body)
        elif exchange.method not in methods.split():
            body = render_error(405, "Method Not Allowed", "Method Not Allowed")
            exchange.respond(405, body, extra=(("allow", methods.split()[0]),))
        else:
            try:
                answer(exchange)
            except Refused as refused:
                body = render_error(refused.status, refused.message, refused.kind, refused.param)
                exchange.respond(refused.status, body)

    def _empty(self, exchange: Exchange) -> None:
        exchange.respond(200, content_type=None)

    def _version(self, exchange: Exchange) -> None:
        exchange.respond(200, b'{"version":"%b"}' % VLLM_VERSION.encode())

    def _models(self, exchange: Exchange) -> None:
        exchange.respond(200, render_models(self.settings))

    def _tokenize(self, exchange: Exchange) -> None:
        body = self._body(exchange)
        check_model(body, self.settings)
        is_chat = "messages" in body
        # Tokenising has no limit of length and samples nothing.
        fields = {name: body[name] for name in ("messages", "prompt") if name in body}
        ids = _tokens_of(fields, self.settings, is_chat=is_chat)
        strings = [_name_of(token) for token in ids] if body.get("return_token_strs") else None
        answer = {
            "count": len(ids),
            "max_model_len": self.settings.max_model_len,
            "tokens": ids,
            "token_strs": strings,
        }
        exchange.respond(200, msgspec.json.encode(answer))

    def _detokenize(self, exchange: Exchange) -> None:
        body = self._body(exchange)
        check_model(body, self.settings)
        ids = body.get("tokens")
        if not isinstance(ids, list) or not all(
            type(token) is int and 0 <= token < VOCABULARY_SIZE for token in ids
        ):
            raise Refused(400, "tokens must be ids of the vocabulary.", param="tokens")
        text = decode(ids, skip_special_tokens=False)
        exchange.respond(200, msgspec.json.encode({"prompt": text}))

    def _body(self, exchange: Exchange) -> dict[str, Any]:
        return read_body(exchange.body, exchange.headers.get("content-type", ""))

    def _generate(self, exchange: Exchange, is_chat: bool) -> None:
        asked = read_asked(
            self._body(exchange),
            self.settings,
            is_chat=is_chat,
            drawn_seed=self._random.getrandbits(31),
        )
        self._begin(exchange, asked)

    def _begin(self, exchange: Exchange, asked: Asked) -> None:
        identity = answer_id(asked, exchange.headers.get("x-request-id", ""))
        reply = Reply(asked, self.settings, identity, exchange)

        def gone() -> None:
            now_s = self._loop.time()
            for sequence in reply.sequences:
                self._engine.abort(sequence, now_s)
            self._schedule()

        exchange.on_gone = gone
        now_s = self._loop.time()
        for sequence in reply.sequences:
            self._engine.submit(sequence, now_s)
        self._schedule()

    def _schedule(self) -> None:
        due_s = self._engine.next_due_s()
        if due_s is None or (self._timer is not None and self._timer_due_s <= due_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_s = max(due_s, self._loop.time() + _TICK_S)
        self._timer = self._loop.call_at(self._timer_due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._engine.advance(self._loop.time())
        self._schedule()


def _tokens_of(body: dict[str, Any], settings: StandInSettings, *, is_chat: bool) -> list[int]:
    no_limit = StandInSettings(model=settings.model, max_model_len=1 << 40)
    asked = read_asked(body | {"max_tokens": 1}, no_limit, is_chat=is_chat, drawn_seed=0)
    return asked.prompts[0]


def _name_of(token: int) -> str:
    return TOKEN_BYTES[token].decode("utf-8", "replace")

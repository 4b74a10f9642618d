"""`FakeEngine`: a small HTTP server with vLLM's routes whose behaviour a test sets.

It streams given tokens, counts requests that begin, finish and are aborted, and can refuse, hang,
stall, or die during an answer. The gateway connects to it over a real Unix socket.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from polling import turns_of_the_event_loop

MODEL = "tiny"


@dataclass
class FakeEngine:
    """Set the attributes to choose the behaviour of the next requests."""

    socket: Path
    tokens: list[str] = field(default_factory=list)
    mode: str = "answer"
    """answer, hang (no first byte), stall (after one token), die (after one token, inside an
    event), cut (after one token, cleanly but without [DONE]), refuse (with `refusal`), dead (closes
    the connection without an answer), drip (slow tokens), split (every byte separately),
    stall_after_done, flood (as much as the client reads), raw (the bytes of `raw`)."""
    refusal: tuple[int, dict[str, object]] = (400, {})
    raw: bytes = b""
    raw_type: str = "text/event-stream"
    words: dict[int, str] | None = None
    """Texts of token ids, for /detokenize; None for an engine that cannot."""
    paths: list[str] = field(default_factory=list)
    num_begun: int = 0
    num_aborted: int = 0
    num_finished: int = 0
    num_flooded: int = 0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def reset(self) -> None:
        """Reset to the state after the start, on the same socket."""
        self.tokens = ["def ", "f(x", "):\n", " return x"]
        self.mode = "answer"
        self.num_begun = self.num_aborted = self.num_finished = self.num_flooded = 0
        self.bodies, self.paths = [], []
        self.headers = []

    async def __aenter__(self) -> FakeEngine:
        self.reset()
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/completions", self._answer)
        app.router.add_post("/v1/embeddings", self._answer)
        app.router.add_post("/v1/responses", self._answer)
        app.router.add_post("/detokenize", self._detokenize)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    async def _detokenize(self, request: web.Request) -> web.Response:
        if self.words is None:
            return web.Response(status=404)
        ids = (await request.json())["tokens"]
        return web.json_response({"prompt": "".join(self.words[one] for one in ids)})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.num_begun += 1
        self.paths.append(request.path)
        try:
            response = await self._do(request, json.loads(body))
        except (asyncio.CancelledError, ConnectionError):
            self.num_aborted += 1
            raise
        self.num_finished += 1
        return response

    async def _do(self, request: web.Request, body: dict[str, object]) -> web.StreamResponse:
        is_chat = request.path == "/v1/chat/completions"
        if self.mode == "hang":
            await asyncio.Event().wait()
        if self.mode == "refuse":
            return web.json_response(self.refusal[1], status=self.refusal[0])
        if self.mode == "dead":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if request.path == "/v1/embeddings":
            return web.json_response(_embedding())
        if request.path == "/v1/responses" and not body.get("stream"):
            return web.json_response(_response(self.tokens, "completed"))
        if self.mode == "raw" and self.raw_type != "text/event-stream":
            return web.Response(body=self.raw, content_type=self.raw_type)
        if not body.get("stream"):
            return web.json_response(_whole(self.tokens, is_chat))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if self.mode == "raw":
            await response.write(self.raw)
            return response
        if request.path == "/v1/responses":
            for event in response_events(self.tokens):
                await response.write(event)
            return response
        while self.mode == "flood":
            await response.write(_event(_chunk("x" * 10_000, is_chat)))
            self.num_flooded += 1
        for index, token in enumerate(self.tokens):
            chunk = _chunk(token, is_chat)
            if index == len(self.tokens) - 1:
                chunk["choices"][0]["finish_reason"] = "stop"
            event = _event(chunk)
            if index == 1 and self.mode == "stall":
                await asyncio.Event().wait()
            if index == 1 and self.mode == "die":
                await response.write(event[:20])
                await turns_of_the_event_loop()  # until the gateway has read that
                assert request.transport is not None
                request.transport.abort()
                return response
            if index == 1 and self.mode == "cut":
                return response
            if self.mode == "drip":
                await asyncio.sleep(0.02)  # sleep: an engine that is slow by design
            for part in [event[i : i + 1] for i in range(len(event))] if self._splits else [event]:
                await response.write(part)
                if self._splits:
                    await asyncio.sleep(0)
        options = body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            usage = {"prompt_tokens": 3, "completion_tokens": len(self.tokens), "total_tokens": 7}
            await response.write(_event({**_chunk("", is_chat), "choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        if self.mode == "stall_after_done":
            await asyncio.Event().wait()
        return response

    @property
    def _splits(self) -> bool:
        return self.mode == "split"


def _event(chunk: dict[str, object]) -> bytes:
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"


def response_events(tokens: list[str]) -> list[bytes]:
    """The stream of a response as vLLM 0.32 writes it: named events with sequence numbers."""
    part = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events = [
        {"type": "response.created", "response": _response([], "in_progress")},
        {"type": "response.in_progress", "response": _response([], "in_progress")},
        *[{"type": "response.output_text.delta", "delta": token, **part} for token in tokens],
        {"type": "response.completed", "response": _response(tokens, "completed")},
    ]
    return [
        b"event: " + str(event["type"]).encode() + b"\n" + _event({**event, "sequence_number": i})
        for i, event in enumerate(events)
    ]


def _response(tokens: list[str], status: str) -> dict[str, object]:
    text = {"type": "output_text", "text": "".join(tokens), "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": status,
        "output": [{**message, "status": status}] if tokens else [],
    }


def _embedding() -> dict[str, object]:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return {"object": "list", "data": data, "model": MODEL, "usage": usage}


def _chunk(token: str, is_chat: bool) -> dict[str, object]:
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    part = {"delta": {"content": token}} if is_chat else {"text": token}
    choice = {"index": 0, **part, "finish_reason": None}
    return {"id": "cmpl-1", "object": kind, "created": 1, "model": MODEL, "choices": [choice]}


def _whole(tokens: list[str], is_chat: bool) -> dict[str, object]:
    text = "".join(tokens)
    part = {"message": {"role": "assistant", "content": text}} if is_chat else {"text": text}
    return {
        "id": "cmpl-1",
        "object": "chat.completion" if is_chat else "text_completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, **part, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": len(tokens), "total_tokens": 7},
    }

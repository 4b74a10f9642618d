"""An engine whose prompt selects its answer, in the format of vLLM 0.32's server.

The last message selects a plain answer, an error with some status ("error 429"), a stream that
breaks ("break") or a stream without end ("endless"). Requests with tools get tool calls, and
requests with a JSON schema get JSON. The engine records the bodies, the number of requests per
prompt, and the number of aborted streams.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

MODEL = "org/tiny-1"
TOKENS = ["Hello", ", 世", "界 ", "👋🏽", "!"]
TEXT = "".join(TOKENS)
CALLS = [
    {"id": "chatcmpl-tool-a1", "name": "get_weather", "arguments": '{"city": "Zürich"}'},
    {"id": "chatcmpl-tool-b2", "name": "get_weather", "arguments": '{"city": "Genève"}'},
]
OBJECT = {"name": "Ada", "age": 36}
USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
_MESSAGES = {
    400: "This model's maximum context length is 2048 tokens. However, your prompt contains 2049.",
    429: "Too many requests in the queue",
    500: "list index out of range",
    503: "The server is overloaded",
}
_TYPES = {400: "BadRequestError", 429: "RateLimitError"}


@dataclass
class ScriptedEngine:
    """Serves on a Unix socket, as an async context manager."""

    socket: Path
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    """Number of requests by the text of their last message."""
    num_aborted: int = 0

    @property
    def call_ids_answered(self) -> list[list[str]]:
        """The ids of the tool calls that each request with tool results answers."""
        messages = [body["messages"] for body in self.bodies]
        return [
            [part["tool_call_id"] for part in conversation if part["role"] == "tool"]
            for conversation in messages
            if conversation[-1]["role"] == "tool"
        ]

    async def __aenter__(self) -> ScriptedEngine:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt = _last_text(body)
        self.bodies.append(body)
        self.tries[prompt] += 1
        if prompt.startswith("error "):
            status = int(prompt.removeprefix("error "))
            return web.json_response({"error": _error(status)}, status=status)
        if not body.get("stream"):
            return web.json_response(_whole(body))
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        try:
            for chunk in _chunks(body):
                await response.write(_event(chunk))
                if prompt == "break" and _has_content(chunk):
                    assert request.transport is not None
                    request.transport.abort()
                    return response
            while prompt == "endless":
                await asyncio.sleep(0.02)
                await response.write(_event(_chunk({"content": " on"})))
        except (asyncio.CancelledError, ConnectionError):
            self.num_aborted += 1
            raise
        await response.write(b"data: [DONE]\n\n")
        return response


def _last_text(body: dict[str, Any]) -> str:
    content = body["messages"][-1].get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def _error(status: int) -> dict[str, object]:
    """Return an error as vLLM does, with the status as an integer code."""
    kind = _TYPES.get(status, "InternalServerError")
    return {"message": _MESSAGES[status], "type": kind, "param": None, "code": status}


def _asks_for_tools(body: dict[str, Any]) -> bool:
    return bool(body.get("tools")) and body["messages"][-1]["role"] == "user"


def _text_for(body: dict[str, Any]) -> list[str]:
    if body.get("response_format", {}).get("type") == "json_schema":
        return [json.dumps(OBJECT)[:9], json.dumps(OBJECT)[9:]]
    return TOKENS


def _whole(body: dict[str, Any]) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": "".join(_text_for(body))}
    reason = "stop"
    if _asks_for_tools(body):
        calls = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in CALLS
        ]  # fmt: skip
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "tool_calls"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": USAGE,
    }


def _chunks(body: dict[str, Any]) -> Iterator[dict[str, object]]:
    yield _chunk({"role": "assistant", "content": ""})
    if _asks_for_tools(body):
        yield from _call_chunks()
        yield _chunk({}, "tool_calls")
    else:
        for token in _text_for(body):
            yield _chunk({"content": token})
        if _last_text(body) != "endless":
            yield _chunk({}, "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**_chunk({}), "choices": [], "usage": USAGE}


def _call_chunks() -> Iterator[dict[str, object]]:
    """Yield the id and name of each call once, then its arguments in parts with the index only."""
    for index, call in enumerate(CALLS):
        first = {"id": call["id"], "type": "function", "index": index,
                 "function": {"name": call["name"], "arguments": ""}}  # fmt: skip
        yield _chunk({"tool_calls": [first]})
        for part in (call["arguments"][:8], call["arguments"][8:]):
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})


def _chunk(delta: dict[str, object], finish_reason: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
    }


def _has_content(chunk: dict[str, Any]) -> bool:
    return bool(chunk["choices"] and chunk["choices"][0]["delta"].get("content"))


def _event(chunk: dict[str, object]) -> bytes:
    text = json.dumps(chunk, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode() + b"\n\n"

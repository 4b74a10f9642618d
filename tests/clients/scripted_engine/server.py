"""The engine's HTTP server, and what it records."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from clients.scripted_engine import chat_format, responses_format
from clients.scripted_engine.script import answer_for, error_for, last_text


@dataclass
class ScriptedEngine:
    """Serves on a Unix socket, as an async context manager."""

    socket: Path
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """The requests in the order of their arrival, as chats."""
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
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_post("/v1/chat/completions", self._answer_chat)
        app.router.add_post("/v1/responses", self._answer_response)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.socket)).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer_chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        answer = answer_for(body)
        events = chat_format.chat_events(body, answer)
        return await self._answer(request, body, chat_format.whole_chat(answer), events)

    async def _answer_response(self, request: web.Request) -> web.StreamResponse:
        body = responses_format.as_chat(await request.json())
        answer = answer_for(body)
        events = responses_format.response_events(answer)
        return await self._answer(request, body, responses_format.whole_response(answer), events)

    async def _answer(
        self,
        request: web.Request,
        body: dict[str, Any],
        whole: dict[str, object],
        events: Iterator[tuple[bytes, bool]],
    ) -> web.StreamResponse:
        """Record the chat; send the error that its prompt selects, or the answer."""
        prompt = last_text(body)
        self.bodies.append(body)
        self.tries[prompt] += 1
        if prompt.startswith("error "):
            status = int(prompt.removeprefix("error "))
            return web.json_response({"error": error_for(status)}, status=status)
        if not body.get("stream"):
            return web.json_response(whole)
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        try:
            for event, has_text in events:
                if prompt == "endless":
                    await asyncio.sleep(0.02)  # sleep: an engine that is slow by design
                await response.write(event)
                if has_text and prompt == "break":
                    assert request.transport is not None
                    request.transport.abort()
                    return response
        except (asyncio.CancelledError, ConnectionError):
            self.num_aborted += 1
            raise
        return response

"""Read streams through the gateway, whole or until their client leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chaos.gateway_process import HTTP

from other_servers.llamacpp import MODEL

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_TIMEOUT_S = 120.0


@dataclass
class Stream:
    """The events that a client has received so far."""

    status: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    is_done: bool = False
    """`[DONE]` was received."""

    @property
    def choices(self) -> list[dict[str, Any]]:
        return [choice for event in self.events for choice in event.get("choices", ())]

    @property
    def text(self) -> str:
        deltas = (choice.get("delta", choice) for choice in self.choices)
        return "".join(delta.get("content") or delta.get("text") or "" for delta in deltas)

    @property
    def finish_reasons(self) -> list[str]:
        return [reason for one in self.choices if (reason := one.get("finish_reason"))]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [event["error"] for event in self.events if "error" in event]

    def take(self, line: str) -> None:
        if line == "data: [DONE]":
            self.is_done = True
        elif line.startswith("data: "):
            self.events.append(json.loads(line.removeprefix("data: ")))


def completion(prompt: str, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A greedy completion that ends at `max_tokens`, unless the model ends it."""
    return {
        "model": MODEL, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, **fields
    }  # fmt: skip


def chat(text: str, max_tokens: int, **fields: Any) -> dict[str, Any]:
    """A greedy chat of one message."""
    messages = [{"role": "user", "content": text}]
    body = completion("", max_tokens, messages=messages, **fields)
    del body["prompt"]
    return body


@contextmanager
def open_stream(
    url: str, path: str, body: dict[str, Any], num_events: int = 1
) -> Iterator[tuple[Stream, Iterator[str]]]:
    """A stream of which `num_events` events have been read; leaving it closes the connection."""
    stream = Stream()
    request = {**body, "stream": True}
    with HTTP.stream("POST", url + path, json=request, timeout=_TIMEOUT_S) as answer:
        stream.status = answer.status_code
        lines = answer.iter_lines()
        while len(stream.events) < num_events:
            stream.take(next(lines))
        yield stream, lines


def read_stream(url: str, path: str, body: dict[str, Any]) -> Stream:
    """The whole stream."""
    with open_stream(url, path, body, num_events=0) as (stream, lines):
        for line in lines:
            stream.take(line)
    return stream


def post(url: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Status and JSON of an answer that is not streamed."""
    answer = HTTP.post(url + path, json=body, timeout=_TIMEOUT_S)
    return answer.status_code, answer.json()

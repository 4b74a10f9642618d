"""Chunks as vLLM 0.32 writes them, and the client of a stream, for tests of the relays."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from paceline.runtime.gateway.continuation.chunks import ChunkReader
from paceline.runtime.gateway.continuation.tracked_relay import TrackedRelay
from paceline.runtime.gateway.delivered import AnswerPart, DeliveredAnswer
from paceline.runtime.gateway.http.stream_reader import StreamReader

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 17, "model": "m"}
COMPLETION_HEAD = {"id": "cmpl-2", "object": "text_completion", "created": 18, "model": "m"}
DONE = b"data: [DONE]\n\n"


def event(chunk: dict[str, Any]) -> bytes:
    return (
        b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"
    )


def role_chunk(prompt_ids: list[int] | None) -> bytes:
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    return event({**HEAD, "choices": [choice], "prompt_token_ids": prompt_ids, "prompt_text": None})


def chat_chunk(text: str, ids: list[int] | None, finish: str | None = None) -> bytes:
    choice: dict[str, Any] = {
        "index": 0,
        "delta": {"content": text},
        "logprobs": None,
        "finish_reason": finish,
    }
    if finish is not None:
        choice["stop_reason"] = None
    return event({**HEAD, "choices": [{**choice, "token_ids": ids}]})


def silent_chunk(*ids: int) -> bytes:
    """What an engine with a parser sends for tokens without text."""
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
    return event({**HEAD, "choices": [{**choice, "token_ids": list(ids)}]})


def completion_chunk(
    text: str, ids: list[int] | None, finish: str | None = None, prompt_ids: list[int] | None = None
) -> bytes:
    choice = {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": None,
        "prompt_token_ids": prompt_ids,
        "token_ids": ids,
    }
    return event({**COMPLETION_HEAD, "choices": [choice]})


def read_events(reader: ChunkReader, events: bytes) -> None:
    """Have the reader read the chunks of these events."""
    for event in StreamReader().read(events):
        if event.chunk is not None:
            reader.read(event.chunk)


def chunks_in(events: bytes) -> list[dict[str, Any]]:
    """The JSON of the events, [DONE] left out."""
    lines = events.decode().split("\n\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def text_in(events: bytes) -> str:
    return "".join(_texts(chunks_in(events)))


def _texts(chunks: Iterable[dict[str, Any]]) -> Iterable[str]:
    for chunk in chunks:
        for choice in chunk["choices"]:
            yield choice["text"] if "text" in choice else choice["delta"].get("content") or ""


CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
WITH_IDS = role_chunk([1, 2, 3]) + chat_chunk('é "token_ids":[9] 🚲', [4, 5]) + chat_chunk("!", [6])
DECORATIONS = [b"id: 7\n", b"event: message\n", b": keep-alive\n", b"retry: 100\n", b"\xef\xbb\xbf"]


def deliver(part: AnswerPart, delivered: DeliveredAnswer) -> bytes:
    """Send the part to the client, as `ClientResponse` does."""
    if part.data:
        delivered.commit(part)
    return part.data


def tracked(data: bytes, *, shows_ids: bool = False) -> tuple[DeliveredAnswer, bytes]:
    delivered = DeliveredAnswer()
    return delivered, deliver(TrackedRelay(shows_ids=shows_ids).feed(data), delivered)


def begun(data: bytes = WITH_IDS) -> DeliveredAnswer:
    return tracked(data)[0]

"""Send a request, read its answer to the end, and classify how it ended for the client.

Covers chats and completions, streamed and not. A silent truncation must never happen: an answer
that ends without `[DONE]`, without an error event and without an HTTP error, or whose connection
breaks.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp

from chaos.authorization import authorization
from chaos.event_stream import Event, EventStreamReader


class Ending(StrEnum):
    COMPLETED = "completed"
    """A stream with a finish reason and `[DONE]`, or a complete answer that is not streamed."""
    REFUSED = "refused"
    """An HTTP error instead of an answer: the request is lost, and its client knows."""
    ERROR_EVENT = "error_event"
    """The stream started and ended with `data: {"error": …}` and no `[DONE]`."""
    TRUNCATED = "truncated"
    """None of these: the client takes the answer for complete, or its connection broke."""


@dataclass
class Transcript:
    """One answer as its client read it."""

    request_id: str = ""
    status: int | None = None
    text: str = ""
    """Of the answer, or the arguments of its tool calls."""
    ids: list[int] = field(default_factory=list)
    """Token ids of the answer, if the client requested them."""
    prompt_ids: list[int] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    is_done: bool = False
    num_done: int = 0
    num_after_done: int = 0
    """Events after `[DONE]`, which clients do not read."""
    stream_ids: set[str] = field(default_factory=set)
    """Values of `id` in the chunks; must be one."""
    num_roles: int = 0
    """Chunks of a chat that have a role; must be one."""
    num_token_chunks: int = 0
    """Chunks of tokens, with or without text: half a character has none."""
    sequence_numbers: list[int] = field(default_factory=list)
    """Of the events of a response; must be 0, 1, 2, …"""
    read_error: str = ""
    """The exception that ended reading, such as a broken connection; empty if there was none."""
    start_s: float = 0.0
    first_token_s: float | None = None
    """When the first token arrived, by the monotonic clock, as are the other times."""
    end_s: float = 0.0
    longest_silence_s: float = 0.0
    """Longest time between two reads of the stream."""

    @property
    def ending(self) -> Ending:
        if self.status is not None and self.status != 200:
            return Ending.REFUSED
        if self.error is not None and not self.is_done and not self.read_error:
            return Ending.ERROR_EVENT
        is_whole = self.is_done and not self.read_error and self.error is None
        return Ending.COMPLETED if is_whole and self.finish_reasons else Ending.TRUNCATED

    @property
    def has_first_token(self) -> bool:
        return bool(self.text or self.ids or self.num_token_chunks)

    def format_errors(self) -> list[str]:
        """List what is wrong with a completed answer, whatever its tokens are."""
        errors = []
        if len(self.finish_reasons) != 1:
            errors.append(f"finish reasons {self.finish_reasons}")
        if self.num_done > 1:
            errors.append(f"[DONE] {self.num_done} times")
        if self.num_after_done:
            errors.append(f"{self.num_after_done} events after [DONE]")
        if len(self.stream_ids) > 1:
            errors.append(f"several ids in one stream: {sorted(self.stream_ids)}")
        if self.num_roles > 1:
            errors.append(f"role {self.num_roles} times")
        if self.ids and self.usage and self.usage["completion_tokens"] != len(self.ids):
            errors.append(f"usage {self.usage} for {len(self.ids)} tokens")
        if self.sequence_numbers != list(range(len(self.sequence_numbers))):
            errors.append(f"sequence numbers {self.sequence_numbers}")
        return errors

    def note_event(self, event: Event) -> None:
        """Take in one event of a stream."""
        if event.data == b"[DONE]":
            self.is_done = True
            self.num_done += 1
            return
        if self.is_done:
            self.num_after_done += 1
            return
        chunk = json.loads(event.data)
        if "sequence_number" in chunk:
            self._note_response_event(chunk)
        elif "error" in chunk:
            self.error = chunk["error"]
        elif chunk.get("object") == "error" or event.name == "error":
            self.error = chunk
        else:
            self.note_chunk(chunk)

    def _note_response_event(self, event: dict[str, Any]) -> None:
        """Take in one event of a stream of /v1/responses."""
        self.sequence_numbers.append(event["sequence_number"])
        if event["type"] == "response.output_text.delta":
            self.text += event["delta"]
        elif event["type"] == "error":
            self.error = event["error"]
        elif event["type"] in ("response.completed", "response.incomplete"):
            response = event["response"]
            self.is_done = True
            self.num_done += 1
            self.finish_reasons.append("stop" if response["status"] == "completed" else "length")
            self.usage = {"completion_tokens": response["usage"]["output_tokens"]}

    def note_chunk(self, chunk: dict[str, Any]) -> None:
        """Take in one chunk of a stream, or a complete answer."""
        if "id" in chunk:
            self.stream_ids.add(chunk["id"])
        if chunk.get("usage"):
            self.usage = chunk["usage"]
        self.prompt_ids = chunk.get("prompt_token_ids") or self.prompt_ids
        for choice in chunk["choices"]:
            message = choice.get("delta") or choice.get("message") or {}
            self.num_roles += "role" in message
            self.num_token_chunks += "role" not in message
            self.text += choice.get("text") or message.get("content") or ""
            for call in message.get("tool_calls") or ():
                self.text += call["function"].get("arguments") or ""
            self.ids += choice.get("token_ids") or []
            self.prompt_ids = choice.get("prompt_token_ids") or self.prompt_ids
            if choice.get("finish_reason") is not None:
                self.finish_reasons.append(choice["finish_reason"])


async def send_request(
    session: aiohttp.ClientSession,
    url: str,
    body: dict[str, Any],
    request_id: str = "",
    key: str = "",
) -> Transcript:
    """Send the request and read its answer to the end.

    Errors of the connection and of the answer's format do not raise: `Transcript.read_error` has
    them.
    """
    headers = {**({"x-request-id": request_id} if request_id else {}), **authorization(key)}
    transcript = Transcript(request_id, start_s=time.monotonic())
    try:
        async with session.post(url, json=body, headers=headers) as response:
            transcript.request_id = response.headers.get("x-request-id", "")
            transcript.status = response.status
            if response.content_type == "text/event-stream":
                await _read_stream(response, transcript)
            else:
                answer = await response.json()
                is_error = answer.get("object") == "error"
                transcript.error = answer if is_error else answer.get("error")
                if transcript.error is None:
                    transcript.note_chunk(answer)
                    transcript.is_done = True
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError) as error:
        transcript.read_error = repr(error)
    transcript.end_s = time.monotonic()
    return transcript


async def _read_stream(response: aiohttp.ClientResponse, transcript: Transcript) -> None:
    reader, last_s = EventStreamReader(), time.monotonic()
    async for data in response.content.iter_any():
        now_s = time.monotonic()
        transcript.longest_silence_s = max(transcript.longest_silence_s, now_s - last_s)
        last_s = now_s
        for event in reader.feed(data):
            transcript.note_event(event)
            if transcript.first_token_s is None and transcript.has_first_token:
                transcript.first_token_s = now_s
    if reader.num_rest_bytes:
        transcript.read_error = f"{reader.num_rest_bytes} bytes after the last event"

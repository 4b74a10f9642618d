"""What did a client read, and may it take that for an answer?

Reads answers of the chat and the completions route, streamed or not, and says of each how it ended
for the client. A silent truncation is what must never be: an answer that stops without `[DONE]`,
without an error event and without an HTTP error, and so is a connection that just breaks.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp


class Ending(StrEnum):
    COMPLETED = "completed"
    """`[DONE]` behind a finish reason, or a whole answer."""
    REFUSED = "refused"
    """An HTTP error, before anything else: the request is lost, but its client knows."""
    ERROR_EVENT = "error_event"
    """The stream began and ended with `data: {"error": …}` and no `[DONE]`."""
    TRUNCATED = "truncated"
    """Neither: a client would take it for complete, or sees its connection break."""


@dataclass
class Transcript:
    """One answer as its client read it."""

    request_id: str = ""
    status: int | None = None
    text: str = ""
    ids: list[int] = field(default_factory=list)
    """Of the answer, where the client asked for them."""
    prompt_ids: list[int] = field(default_factory=list)
    finish_reasons: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    is_done: bool = False
    num_done: int = 0
    stream_ids: set[str] = field(default_factory=set)
    """The `id` of its chunks: one, whatever happened."""
    num_roles: int = 0
    """Chunks of a chat that name the role: one."""
    broke: str = ""
    """How the connection ended, if not in good order."""
    began_s: float = 0.0
    first_s: float | None = None
    """The first chunk, by the monotonic clock."""
    ended_s: float = 0.0
    longest_silence_s: float = 0.0
    """Between two pieces of the stream."""

    @property
    def ending(self) -> Ending:
        if self.status is not None and self.status != 200:
            return Ending.REFUSED
        if self.error is not None and not self.is_done and not self.broke:
            return Ending.ERROR_EVENT
        is_whole = self.is_done and not self.broke and self.error is None and self.finish_reasons
        return Ending.COMPLETED if is_whole else Ending.TRUNCATED

    @property
    def has_first_token(self) -> bool:
        return bool(self.text or self.ids)

    def faults_of_form(self) -> list[str]:
        """What is wrong with a completed stream whatever its tokens are."""
        faults = []
        if len(self.finish_reasons) != 1:
            faults.append(f"finish reasons {self.finish_reasons}")
        if self.num_done > 1:
            faults.append(f"[DONE] {self.num_done} times")
        if len(self.stream_ids) > 1:
            faults.append(f"ids of one stream {sorted(self.stream_ids)}")
        if self.num_roles > 1:
            faults.append(f"role {self.num_roles} times")
        if self.ids and self.usage and self.usage["completion_tokens"] != len(self.ids):
            faults.append(f"usage {self.usage} for {len(self.ids)} tokens")
        return faults

    def note_line(self, line: bytes) -> None:
        """One line of an event stream."""
        if not line.startswith(b"data: "):
            return
        if line == b"data: [DONE]":
            self.is_done = True
            self.num_done += 1
            return
        chunk = json.loads(line[6:])
        if "error" in chunk:
            self.error = chunk["error"]
            return
        self.note_chunk(chunk)

    def note_chunk(self, chunk: dict[str, Any]) -> None:
        if "id" in chunk:
            self.stream_ids.add(chunk["id"])
        if chunk.get("usage"):
            self.usage = chunk["usage"]
        self.prompt_ids = chunk.get("prompt_token_ids") or self.prompt_ids
        for choice in chunk["choices"]:
            message = choice.get("delta") or choice.get("message") or {}
            self.num_roles += "role" in message
            self.text += choice.get("text") or message.get("content") or ""
            self.ids += choice.get("token_ids") or []
            self.prompt_ids = choice.get("prompt_token_ids") or self.prompt_ids
            if choice.get("finish_reason") is not None:
                self.finish_reasons.append(choice["finish_reason"])


async def ask(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], request_id: str = ""
) -> Transcript:
    """Send the request and read its answer to the end; does not raise for what goes wrong."""
    headers = {"x-request-id": request_id} if request_id else {}
    told = Transcript(request_id, began_s=time.monotonic())
    try:
        async with session.post(url, json=body, headers=headers) as response:
            told.request_id = response.headers.get("x-request-id", "")
            told.status = response.status
            if response.content_type == "text/event-stream":
                await _read_stream(response, told)
            else:
                answer = await response.json()
                told.error = answer.get("error")
                if told.error is None:
                    told.note_chunk(answer)
                    told.is_done = True
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        told.broke = repr(error)
    told.ended_s = time.monotonic()
    return told


async def _read_stream(response: aiohttp.ClientResponse, told: Transcript) -> None:
    held, last_s = b"", time.monotonic()
    async for data in response.content.iter_any():
        now_s = time.monotonic()
        told.longest_silence_s = max(told.longest_silence_s, now_s - last_s)
        last_s = now_s
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            told.note_line(line.rstrip(b"\r"))
            if told.first_s is None and told.has_first_token:
                told.first_s = now_s
    if held:
        told.broke = f"{len(held)} bytes behind the last line"

"""`ContinuedRelay`: give the events of the continuing replica the form of the stream begun before.

The continuing replica answers a completions request. Its events become chunks of the same stream:
the same id, time, model and kind of chunk, usage over the whole answer, and stop strings across the
resume point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.gateway.continuation.resume_point import ResumePoint
from paceline.gateway.continuation.stop_strings import StopScanner
from paceline.gateway.continuation.token_history import Choice, TokenHistory, decode_chunk
from paceline.gateway.continuation.tracked_relay import MAX_HELD_BYTES
from paceline.gateway.http.sse import EventRelay

DONE = b"data: [DONE]\n\n"


class ContinuedRelay:
    """Turns events of the continuing replica into events for the client; extends the history."""

    def __init__(
        self, request: Mapping[str, Any], history: TokenHistory, point: ResumePoint
    ) -> None:
        """`history` can be continued; it is rewound to the resume point here."""
        history.rewind(point.num_ids)
        self._history = history
        self._tail = StreamTail(request, history)
        self._stops = StopScanner(
            stop_strings_of(request),
            shows_stop=bool(request.get("include_stop_str_in_output")),
            delivered=history.delivered_text,
        )
        self._unsent = point.unsent_text
        self._shows_ids = bool(request.get("return_token_ids"))
        self._relay = EventRelay(MAX_HELD_BYTES)
        self.saw_done = False
        """The stream is complete, even if the engine sends more."""

    @property
    def error(self) -> bytes | None:
        return self._relay.error

    @property
    def is_inside_event(self) -> bool:
        """Always False: this relay renders whole events."""
        return False

    @property
    def has_tokens(self) -> bool:
        return self._relay.has_tokens

    @property
    def num_output_tokens(self) -> int | None:
        return len(self._history.emitted_ids) or None

    def feed(self, data: bytes) -> bytes:
        """Events for the client. ValueError for bytes that are no event of a completions stream."""
        if self.saw_done:
            return b""
        out: list[bytes] = []
        events = self._relay.feed(data)
        if self._relay.is_inside_event:
            raise ValueError(f"an event is longer than {MAX_HELD_BYTES} bytes")
        for line in events.split(b"\n"):
            if not line.startswith(b"data: {"):
                continue
            try:
                chunk = decode_chunk(line[6:])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"an event is no chunk of a stream: {error}") from error
            if self._history.finish_reason is None:
                out.extend(map(self._chunk, chunk.choices))
        if self._history.finish_reason is not None and (
            self._relay.saw_done or self._stops.matched is not None
        ):
            out.append(self._tail.render_end())
            self.saw_done = True
        return b"".join(out)

    def finish(self, reason: str) -> bytes:
        """The end of an answer that has all its tokens: the unsent text and the closing events."""
        text = self._stops.feed(self._unsent) + self._stops.flush()
        self._history.extend((), text, reason)
        self.saw_done = True
        return self._tail.render_chunk(text, (), reason, None) + self._tail.render_end()

    def _chunk(self, choice: Choice) -> bytes:
        ids = choice.token_ids or []
        ends = choice.finish_reason is not None
        shown_ids = self._history.unseen(ids, ends=ends) if self._shows_ids else ids
        text = self._stops.feed(self._unsent + (choice.text or ""))
        self._unsent = ""
        reason: str | None = choice.finish_reason
        stop_reason = choice.stop_reason
        if self._stops.matched is not None:
            reason, stop_reason = "stop", self._stops.matched
        elif reason is not None:
            text += self._stops.flush()
        self._history.extend(ids, text, reason)
        return self._tail.render_chunk(text, shown_ids, reason, stop_reason)


class StreamTail:
    """Renders further events of a stream, with the fields in vLLM's order."""

    def __init__(self, request: Mapping[str, Any], history: TokenHistory) -> None:
        assert history.head is not None
        options = request.get("stream_options") or {}
        self._history = history
        self._head = history.head
        self._is_chat = "messages" in request
        self._shows_ids = bool(request.get("return_token_ids"))
        self._shows_usage = bool(options.get("include_usage"))
        self._shows_usage_always = self._shows_usage and bool(options.get("continuous_usage_stats"))

    def render_chunk(
        self,
        text: str,
        ids: list[int] | tuple[()],
        finish_reason: str | None,
        stop_reason: int | str | None,
    ) -> bytes:
        """One chunk; call it when the history holds these ids."""
        choice: dict[str, object] = {"index": 0}
        if self._is_chat:
            choice["delta"] = {"content": text}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": finish_reason}
        if finish_reason is not None or not self._is_chat:
            choice["stop_reason"] = stop_reason
        if not self._is_chat:
            choice["prompt_token_ids"] = None
        choice["token_ids"] = list(ids) if self._shows_ids else None
        return self._render([choice], with_usage=self._shows_usage_always)

    def render_end(self) -> bytes:
        """The usage, if it was requested and has not been sent, and the mark of the end."""
        usage = b""
        if self._shows_usage and not self._history.has_usage:
            usage = self._render([], with_usage=True)
            self._history.has_usage = True
        return usage + DONE

    def _render(self, choices: list[dict[str, object]], *, with_usage: bool) -> bytes:
        chunk: dict[str, object] = {
            "id": self._head.id,
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": self._head.created,
            "model": self._head.model,
            "choices": choices,
        }
        if with_usage:
            num_prompt, num_output = (
                len(self._history.prompt_ids or ()),
                len(self._history.emitted_ids),
            )
            chunk["usage"] = {
                "prompt_tokens": num_prompt,
                "total_tokens": num_prompt + num_output,
                "completion_tokens": num_output,
            }
        return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def stop_strings_of(request: Mapping[str, Any]) -> list[str]:
    stop = request.get("stop")
    return [stop] if isinstance(stop, str) else list(stop or ())


def max_held_chars(request: Mapping[str, Any]) -> int:
    """Characters that vLLM holds back for stop strings."""
    stops = stop_strings_of(request)
    if not stops or request.get("include_stop_str_in_output"):
        return 0
    return max(map(len, stops)) - 1

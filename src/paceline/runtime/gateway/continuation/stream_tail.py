"""`StreamTail`: render further events of a stream that the client has begun to read.

They have the form of the events before: the same id, time, model and kind of chunk, and the fields
in vLLM's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from paceline.runtime.gateway.delivered import DeliveredAnswer
from paceline.runtime.gateway.http.stream_reader import DONE


class StreamTail:
    """Renders events; the caller sends them."""

    def __init__(self, request: Mapping[str, Any], delivered: DeliveredAnswer) -> None:
        """The client has received at least the first chunk."""
        assert delivered.head is not None
        options = request.get("stream_options") or {}
        self._delivered = delivered
        self._head = delivered.head
        self._num_prompt_tokens = len(delivered.prompt_ids or ())
        self._is_chat = "messages" in request
        self._shows_ids = bool(request.get("return_token_ids"))
        self._shows_usage = bool(options.get("include_usage"))
        self.shows_usage_always = self._shows_usage and bool(options.get("continuous_usage_stats"))
        """Every chunk has the usage so far."""

    def render_chunk(
        self,
        text: str,
        ids: Sequence[int],
        finish_reason: str | None,
        stop_reason: int | str | None,
        num_tokens: int,
    ) -> bytes:
        """One chunk with these ids; `num_tokens` counts the answer's tokens, these included."""
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
        return self._render([choice], num_tokens if self.shows_usage_always else None)

    def render_end(self, num_tokens: int | None) -> bytes:
        """The mark of the end, after the usage if it was requested and has not been sent.

        ValueError if it is to be sent and the tokens are not known (None).
        """
        if not self._shows_usage or self._delivered.has_usage:
            return DONE
        if num_tokens is None:
            raise ValueError("the tokens of the answer were not reported")
        return self._render([], num_tokens) + DONE

    def _render(self, choices: list[dict[str, object]], num_counted_tokens: int | None) -> bytes:
        chunk: dict[str, object] = {
            "id": self._head.id,
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": self._head.created,
            "model": self._head.model,
            "choices": choices,
        }
        if num_counted_tokens is not None:
            chunk["usage"] = {
                "prompt_tokens": self._num_prompt_tokens,
                "total_tokens": self._num_prompt_tokens + num_counted_tokens,
                "completion_tokens": num_counted_tokens,
            }
        return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

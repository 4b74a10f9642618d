"""What the engine answers: the texts, tool calls and errors that the last message selects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MODEL = "org/tiny-1"
TOKENS = ("Hello", ", 世", "界 ", "👋🏽", "!")
TEXT = "".join(TOKENS)
CALLS = (
    {"id": "chatcmpl-tool-a1", "name": "get_weather", "arguments": '{"city": "Zürich"}'},
    {"id": "chatcmpl-tool-b2", "name": "get_weather", "arguments": '{"city": "Genève"}'},
)
OBJECT = {"name": "Ada", "age": 36}
USAGE = (7, 5)
"""Prompt tokens and generated tokens of every answer."""
_OBJECT_PARTS = (json.dumps(OBJECT)[:9], json.dumps(OBJECT)[9:])
_MESSAGES = {
    400: "This model's maximum context length is 2048 tokens. However, your prompt contains 2049.",
    429: "Too many requests in the queue",
    500: "list index out of range",
    503: "The server is overloaded",
}
_TYPES = {400: "BadRequestError", 429: "RateLimitError"}


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """Tool calls, or a text."""

    tokens: tuple[str, ...] = ()
    calls: tuple[dict[str, str], ...] = ()
    is_endless: bool = False

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def pieces(self) -> Iterator[str]:
        """The text of each event of a stream, without end if the answer is endless."""
        return itertools.chain(self.tokens, itertools.repeat(" on") if self.is_endless else ())


def last_text(body: dict[str, Any]) -> str:
    """The text of a chat's last message."""
    content = body["messages"][-1].get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def answer_for(body: dict[str, Any]) -> ScriptedAnswer:
    """The answer to a chat."""
    if body.get("tools") and body["messages"][-1]["role"] == "user":
        return ScriptedAnswer(calls=CALLS)
    if (body.get("response_format") or {}).get("type") == "json_schema":
        return ScriptedAnswer(_OBJECT_PARTS)
    return ScriptedAnswer(TOKENS, is_endless=last_text(body) == "endless")


def error_for(status: int) -> dict[str, object]:
    """An error as vLLM sends it, with the status as an integer code."""
    kind = _TYPES.get(status, "InternalServerError")
    return {"message": _MESSAGES[status], "type": kind, "param": None, "code": status}

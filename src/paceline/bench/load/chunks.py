"""What one chunk of a streamed completion carries: content, its end, and token counts.

Servers differ in what they leave out or send as null: the choices beside the usage, one choice, the
delta beside a finish reason. Some send counts as 8.0, and content as a list of parts. All of that
is read. What is no chunk at all is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Delta(msgspec.Struct):
    # Read for whether they are empty, whatever their type is.
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def has_content(self) -> bool:
        delta = self.delta
        return bool(self.text) or (
            delta is not None
            and bool(
                _text_of(delta.content)
                or delta.reasoning_content
                or delta.reasoning
                or delta.tool_calls
            )
        )


class _Usage(msgspec.Struct):
    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None


class Chunk(msgspec.Struct):
    """One chunk as the server sent it."""

    choices: list[_Choice | None] | None = None
    usage: _Usage | None = None
    error: Any = None

    @property
    def has_content(self) -> bool:
        """Whether it carries text, reasoning or a tool call."""
        return any(choice is not None and choice.has_content for choice in self.choices or ())

    @property
    def text(self) -> str:
        """The text of a chat's answer in this chunk."""
        deltas = [choice.delta for choice in self.choices or () if choice is not None]
        return "".join(_text_of(delta.content) for delta in deltas if delta is not None)

    @property
    def is_last(self) -> bool:
        """Whether a choice ends with this chunk."""
        return any(
            choice is not None and choice.finish_reason is not None for choice in self.choices or ()
        )

    @property
    def prompt_tokens(self) -> int | None:
        return None if self.usage is None else _whole(self.usage.prompt_tokens)

    @property
    def output_tokens(self) -> int | None:
        return None if self.usage is None else _whole(self.usage.completion_tokens)


_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(event: bytes) -> Chunk:
    """The chunk in the data of one event. Raises msgspec.MsgspecError for anything else.

    >>> read_chunk(b'{"choices": null, "usage": {"completion_tokens": 8.0}}').output_tokens
    8
    """
    return _decode(event)


def _text_of(content: Any) -> str:
    """The text of a delta's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _whole(count: float | None) -> int | None:
    return None if count is None or count != int(count) else int(count)

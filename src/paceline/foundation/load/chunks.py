"""What one chunk of a streamed completion carries: content, its end, counts of tokens and drafts.

Servers differ in what they leave out or send as null: the choices beside the usage, one choice, the
delta beside a finish reason. Some send counts as 8.0, and content as a list of parts. All of that
is read. What is no chunk at all is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.foundation.load.records import DraftCounts


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
    metrics: Any = None
    """Of vLLM; what else stands there is of no interest."""
    timings: Any = None
    """Of llama.cpp's server."""

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

    @property
    def drafts(self) -> DraftCounts | None:
        """What was drafted for the answer; None if the chunk does not say.

        vLLM says so with `--per-request-spec-decode-metrics`, llama.cpp's server always.
        """
        inner = self.metrics.get("speculative_decoding") if isinstance(self.metrics, dict) else None
        for counts, (drafted, accepted, drafts) in (
            (inner, ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")),
            (self.timings, ("draft_n", "draft_n_accepted", "")),
        ):
            if isinstance(counts, dict):
                num_drafted, num_accepted = _count(counts, drafted), _count(counts, accepted)
                if num_drafted is not None and num_accepted is not None:
                    return DraftCounts(num_drafted, num_accepted, _count(counts, drafts))
        return None


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


def _count(counts: dict[str, Any], name: str) -> int | None:
    value = counts.get(name)
    return value if type(value) is int and value >= 0 else None


def _whole(count: float | None) -> int | None:
    return None if count is None or count != int(count) else int(count)

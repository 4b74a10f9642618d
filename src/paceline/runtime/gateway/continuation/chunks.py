"""`ChunkReader`: collect the tokens of the chunks of a stream, chat and completions alike."""

from __future__ import annotations

from array import array

from paceline.runtime.gateway.delivered import ChunkHead, TokenDelta
from paceline.runtime.gateway.http.stream_chunk import ChatDelta, Choice, Chunk

MAX_SILENT_IDS = 32
"""Ids without content at the start of an answer, after which it counts as one that the engine
parses. A character takes four at most; the rest is room for special tokens. Text that is held back
for stop strings has an id per character at most."""


class ChunkReader:
    """Reads the events of one stream in order, and collects what they add until it is taken.

    An engine with a parser sends ids without content (or with null) while it is inside reasoning or
    a tool call, and also for every token that has no text: a special one, or the first part of a
    character. At the start of an answer the next chunk shows which it is, so the answer begins with
    the first that does. Later ones are counted (`TokenDelta.num_silent_ids`), and
    `ResumableStream` looks at them.
    """

    __slots__ = (
        "_finish_reason", "_has_all_ids", "_has_content", "_has_usage", "_head", "_ids",
        "_max_silent_ids", "_num_silent_ids", "_num_taken_ids", "_prompt_ids", "_text", "has_begun",
        "lost",
    )  # fmt: skip

    def __init__(self, max_held_chars: int = 0) -> None:
        """`max_held_chars` are held back by the engine for stop strings."""
        self._num_taken_ids = 0
        self._has_content = False
        self._max_silent_ids = MAX_SILENT_IDS + max_held_chars
        self.has_begun = False
        """The answer has begun, or the stream is known not to be continuable."""
        self.lost: str | None = None
        """Why part of the stream cannot be recorded; None when it is."""
        self._has_all_ids = True
        """Events are read as long as this is true."""
        self._reset()

    def read(self, chunk: Chunk) -> None:
        """Take in one chunk. What cannot be recorded sets `lost`."""
        if not self._has_all_ids:
            return
        if not chunk.is_known:
            self.lose("an event is no chunk of a stream")
            return
        try:
            self._note(chunk)
        except OverflowError:
            self.lose("an event is no chunk of a stream")

    def lose(self, reason: str, *, has_all_ids: bool = False) -> None:
        """Part of the stream cannot be recorded; with `has_all_ids`, its token ids still can."""
        self.lost = self.lost or reason
        self._has_all_ids = self._has_all_ids and has_all_ids
        self.has_begun = True

    def take(self) -> TokenDelta:
        """What was read since the last call."""
        delta = TokenDelta(
            self._num_taken_ids,
            self._ids,
            self._text,
            self._finish_reason,
            self._head,
            self._prompt_ids,
            self._has_usage,
            self.lost,
            self._has_all_ids,
            self._num_silent_ids,
        )
        self._num_taken_ids += len(self._ids)
        self._reset()
        return delta

    def _reset(self) -> None:
        self._head: ChunkHead | None = None
        self._prompt_ids: array[int] | None = None
        self._ids = array("I")
        self._text = ""
        self._finish_reason: str | None = None
        self._has_usage = False
        self._num_silent_ids = 0
        """At the end of `_ids`."""

    def _note(self, chunk: Chunk) -> None:
        if self._head is None and not self._num_taken_ids:
            self._head = ChunkHead(chunk.id or "", int(chunk.created or 0), chunk.model or "")
        if chunk.prompt_token_ids is not None:
            self._prompt_ids = array("I", chunk.prompt_token_ids)
        self._has_usage = self._has_usage or chunk.is_usage
        for choice in chunk.choices or ():
            self._note_choice(choice)

    def _note_choice(self, choice: Choice) -> None:
        if choice.prompt_token_ids is not None:
            self._prompt_ids = array("I", choice.prompt_token_ids)
        text = choice.text
        if choice.index != 0:
            self.lose("the stream has several answers")
        if choice.delta is not None:
            delta = choice.delta
            text = delta.content or None
            is_parsed = delta.reasoning or delta.reasoning_content or delta.tool_calls
            if choice.token_ids:
                self._note_silence(len(choice.token_ids), delta)
            stays_silent = not self._has_content and self._num_silent_ids > self._max_silent_ids
            if is_parsed or stays_silent:
                reason = "the engine parses the answer into reasoning or tool calls"
                self.lose(reason, has_all_ids=choice.token_ids is not None)
        if text and choice.token_ids is None:
            self.lose("the engine does not report token ids")
        if choice.token_ids:
            self._ids.extend(choice.token_ids)
        if text and self.lost is None:
            self._text += text
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
        has_content = choice.delta is None or self._has_content
        if (self._ids and has_content) or choice.finish_reason is not None:
            self.has_begun = True

    def _note_silence(self, num_ids: int, delta: ChatDelta) -> None:
        if delta.content is None:
            self._num_silent_ids += num_ids
        else:
            self._has_content = True
            self._num_silent_ids = 0

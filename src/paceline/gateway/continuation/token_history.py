"""`TokenHistory`: what the client of one stream has received so far, in tokens and in text.

A stream is continued from it: the ids of prompt and answer, the delivered text, and the head of the
chunks. It grows with the answer: four bytes per token, and one to four per character of text.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec


class Delta(msgspec.Struct):
    """The delta of a chat chunk; only the fields that the history needs."""

    content: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class Choice(msgspec.Struct):
    """A choice of a chat or completions chunk."""

    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class Chunk(msgspec.Struct):
    """One event of a stream, chat and completions alike."""

    id: str = ""
    created: int = 0
    model: str = ""
    choices: list[Choice] = []
    prompt_token_ids: list[int] | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
"""Raises msgspec.DecodeError on anything else."""


@dataclass(frozen=True, slots=True)
class ChunkHead:
    """What every chunk of one stream begins with."""

    id: str
    created: int
    model: str


class TokenHistory:
    """The tokens of one stream so far. The relays add each event to it."""

    def __init__(self) -> None:
        self.head: ChunkHead | None = None
        """None until the first chunk."""
        self.prompt_ids: Sequence[int] | None = None
        """None until the engine has reported them."""
        self.emitted_ids = array("I")
        """Ids of the answer, also those whose text is still held back."""
        self.finish_reason: str | None = None
        """Not None: the answer is complete, only usage and [DONE] may be missing."""
        self.has_usage = False
        """The chunk with the usage was sent."""
        self.lost: str | None = None
        """Why the history lacks part of the stream, which then cannot be continued; else None."""
        self._text = io.StringIO()  # a string for each chunk would take 60 bytes per token
        self._rewound_ids = array("I")
        """Ids after the resume point that a client which requested ids has already received."""

    @property
    def can_be_continued(self) -> bool:
        return self.lost is None and self.prompt_ids is not None and self.head is not None

    @property
    def delivered_text(self) -> str:
        """The text that was sent."""
        return self._text.getvalue()

    def note(self, chunk: Chunk) -> None:
        """Record a chunk of the engine that is sent as it is."""
        if self.head is None:
            self.head = ChunkHead(chunk.id, chunk.created, chunk.model)
        if chunk.prompt_token_ids is not None:
            self.prompt_ids = array("I", chunk.prompt_token_ids)
        if not chunk.choices:
            self.has_usage = True
        for choice in chunk.choices:
            self._note_choice(choice)

    def extend(self, ids: Sequence[int], text: str, finish_reason: str | None) -> None:
        """Record tokens of the answer, and the text that was sent with them."""
        self.emitted_ids.extend(ids)
        self._text.write(text)
        if finish_reason is not None:
            self.finish_reason = finish_reason

    @property
    def has_begun(self) -> bool:
        """The answer has begun, or the stream is known not to be continuable."""
        return bool(self.emitted_ids) or self.finish_reason is not None or self.lost is not None

    def rewind(self, num_ids: int) -> None:
        """Drop the ids after the first `num_ids`; their text was never sent."""
        self._rewound_ids = self.emitted_ids[num_ids:] + self._rewound_ids
        del self.emitted_ids[num_ids:]

    def unseen(self, ids: Sequence[int], *, ends: bool) -> list[int]:
        """The next ids without those that the client has already received before a rewind.

        ValueError when they differ from those it has received, as sampled ones may.
        """
        num_seen = len(self._rewound_ids) if ends else min(len(ids), len(self._rewound_ids))
        if list(self._rewound_ids[:num_seen]) != list(ids[:num_seen]):
            raise ValueError("tokens that the client has received were generated differently")
        del self._rewound_ids[:num_seen]
        return list(ids[num_seen:])

    def _note_choice(self, choice: Choice) -> None:
        if choice.prompt_token_ids is not None:
            self.prompt_ids = array("I", choice.prompt_token_ids)
        text = choice.text
        if choice.delta is not None:
            delta = choice.delta
            text = delta.content or None
            is_parsed = delta.reasoning or delta.reasoning_content or delta.tool_calls
            if is_parsed or (choice.token_ids and delta.content is msgspec.UNSET):
                self.lost = "the engine parses the answer into reasoning or tool calls"
        if choice.index != 0:
            self.lost = "the stream has several answers"
        if text and choice.token_ids is None:
            self.lost = "the engine does not report token ids"
        self.extend(choice.token_ids or (), text or "", choice.finish_reason)

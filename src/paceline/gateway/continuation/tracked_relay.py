"""`TrackedRelay`: pass a stream on and read what is needed to continue it.

Its events pass unchanged, but the token ids in them are read, and removed again unless the
client requested them: the rest is byte for byte what the engine sends without ids (an engine that
parses answers into reasoning or tool calls sends some more empty chunks).

Events before the first token (a chat's chunk with the role, which vLLM sends together with it) are
held back until that token, and tokens without content until the chunk that shows what they are: a
stream of which the client has received no token can begin anew.
"""

from __future__ import annotations

import re

from paceline.gateway.continuation.chunks import ChunkReader
from paceline.gateway.delivered import NOTHING, AnswerPart
from paceline.gateway.http.sse import EventSplitter, SplitterRelay, are_comments

MAX_HELD_BYTES = 8 * 1024 * 1024
"""Longest event of a tracked stream. The first one holds the ids of the prompt, some 7 bytes each:
room for a million."""

_IDS = re.compile(rb'\[(?:(?<="token_ids":\[)|(?<="prompt_token_ids":\[))[\d,\s]*\]')
"""Looks for the bracket first: four times faster than looking for the name. The name cannot occur
inside a JSON string: quotes are escaped there."""
_IDS_MARK = b'token_ids":['


class TrackedRelay(SplitterRelay):
    """Turns bytes of the engine into whole events for the client, with their tokens."""

    def __init__(self, *, shows_ids: bool, max_held_chars: int = 0) -> None:
        """`max_held_chars` are held back by the engine for stop strings."""
        super().__init__(EventSplitter(MAX_HELD_BYTES))
        self._shows_ids = shows_ids
        self._reader = ChunkReader(max_held_chars)
        self._before_first = b""

    @property
    def has_tokens(self) -> bool:
        return self._reader.has_begun or self.saw_done

    def feed(self, data: bytes) -> AnswerPart:
        """The events that may be sent to the client now; possibly none."""
        splitter, reader = self._splitter, self._reader
        events = splitter.feed(data)
        if not events:
            return NOTHING
        if splitter.is_inside_event:
            reader.lose(f"an event is longer than {MAX_HELD_BYTES} bytes")
        reader.read(events)
        if not self._shows_ids and _IDS_MARK in events:
            events = _IDS.sub(b"null", events)
        if are_comments(events):
            return AnswerPart(events)
        if self._before_first:
            events, self._before_first = self._before_first + events, b""
        if not self.has_tokens:
            self._before_first = events
            return NOTHING
        return AnswerPart(events, reader.take(), not splitter.is_inside_event, splitter.usage)

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
from collections.abc import Callable

from paceline.runtime.gateway.continuation.chunks import ChunkReader
from paceline.runtime.gateway.delivered import NOTHING, AnswerPart
from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES
from paceline.runtime.gateway.http.sse import Relay
from paceline.runtime.gateway.http.stream_reader import StreamReader

_IDS = re.compile(rb'\[(?:(?<="token_ids":\[)|(?<="prompt_token_ids":\[))[\d,\s]*\]')
"""Looks for the bracket first: four times faster than looking for the name. The name cannot occur
inside a JSON string: quotes are escaped there."""
_IDS_MARK = b'token_ids":['
_SPACED_IDS = re.compile(rb'("(?:prompt_)?token_ids"\s*:\s*)\[[\d,\s]*\]')
"""As a proxy writes them that encodes events anew."""


class TrackedRelay(Relay):
    """Turns bytes of the engine into whole events for the client, with their tokens."""

    def __init__(
        self,
        *,
        shows_ids: bool,
        max_held_chars: int = 0,
        closing_part: Callable[[], AnswerPart] = lambda: NOTHING,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """`max_held_chars` are held back by the engine for stop strings."""
        super().__init__(StreamReader(max_event_bytes=max_event_bytes), max_event_bytes)
        self._shows_ids = shows_ids
        self._tokens = ChunkReader(max_held_chars)
        self._closing_part = closing_part

    @property
    def has_tokens(self) -> bool:
        return self._tokens.has_begun or self.saw_done

    def closing_part(self) -> AnswerPart:
        return self._closing_part()

    def feed(self, data: bytes) -> AnswerPart:
        sent: list[bytes] = []
        comments: list[bytes] = []
        had_tokens = self.has_tokens
        for event in self._reader.read(data):
            if event.is_comment:
                comments.append(event.raw)
                continue
            raw = event.raw
            if event.chunk is not None:
                self._tokens.read(event.chunk)
                if not self._shows_ids and b"token_ids" in raw:
                    raw = _without_ids(raw)
            if had_tokens:
                sent.append(raw)
            else:
                self._hold(raw)
        if self._held and self.has_tokens:
            sent = self._release() + sent
        if not sent:
            return AnswerPart(b"".join(comments), is_comment=True) if comments else NOTHING
        return AnswerPart(b"".join(comments + sent), self._tokens.take(), usage=self._reader.usage)


def _without_ids(event: bytes) -> bytes:
    if _IDS_MARK in event:
        return _IDS.sub(b"null", event)
    return _SPACED_IDS.sub(rb"\1null", event)

"""`TrackedRelay`: pass a stream on and record what is needed to continue it.

Its events pass unchanged, but the token ids in them are recorded, and removed again unless the
client requested them: the rest is byte for byte what the engine sends without ids (an engine that
parses answers into reasoning or tool calls sends some more empty chunks).

Events before the first token (a chat's chunk with the role, which vLLM sends together with it) are
held back until that token: a stream of which the client has received no token can begin anew.
"""

from __future__ import annotations

import re

import msgspec

from paceline.gateway.continuation.token_history import TokenHistory, decode_chunk
from paceline.gateway.http.sse import EventRelay, are_comments

MAX_HELD_BYTES = 8 * 1024 * 1024
"""Longest event of a tracked stream. The first one holds the ids of the prompt, some 7 bytes each:
room for a million."""

_IDS = re.compile(rb'\[(?:(?<="token_ids":\[)|(?<="prompt_token_ids":\[))[\d,\s]*\]')
"""Looks for the bracket first: four times faster than looking for the name. The name cannot occur
inside a JSON string: quotes are escaped there."""
_IDS_MARK = b'token_ids":['
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_DATA = b"data:"


class TrackedRelay:
    """Turns bytes of the engine into whole events for the client; extends the history."""

    def __init__(self, history: TokenHistory, *, shows_ids: bool) -> None:
        self._history = history
        self._shows_ids = shows_ids
        self._relay = EventRelay(MAX_HELD_BYTES)
        self._before_first = b""

    @property
    def saw_done(self) -> bool:
        return self._relay.saw_done

    @property
    def error(self) -> bytes | None:
        return self._relay.error

    @property
    def is_inside_event(self) -> bool:
        return self._relay.is_inside_event

    @property
    def has_tokens(self) -> bool:
        return self._history.has_begun or self.saw_done

    @property
    def num_output_tokens(self) -> int | None:
        return len(self._history.emitted_ids) or self._relay.num_output_tokens

    def feed(self, data: bytes) -> bytes:
        """The events that may be sent to the client now; possibly none."""
        events = self._relay.feed(data)
        if not events:
            return events
        if self._relay.is_inside_event:
            self._history.lost = f"an event is longer than {MAX_HELD_BYTES} bytes"
        if self._history.lost is None:
            self._note(events)
        if not self._shows_ids and _IDS_MARK in events:
            events = _IDS.sub(b"null", events)
        if not (self.has_tokens or are_comments(events)):
            self._before_first += events
            return b""
        if self._before_first and not are_comments(events):
            events, self._before_first = self._before_first + events, b""
        return events

    def _note(self, events: bytes) -> None:
        blocks = _EVENT_END.split(events) if b"\r" in events else events.split(b"\n\n")
        for block in blocks:
            if not block.startswith(_DATA):
                continue  # a comment, or nothing
            payload = block[len(_DATA) :].strip()
            if payload.startswith(b"[DONE]"):
                return
            try:
                self._history.note(decode_chunk(payload))
            except (msgspec.DecodeError, OverflowError, UnicodeDecodeError):
                self._history.lost = "an event is no chunk of a stream"
                return

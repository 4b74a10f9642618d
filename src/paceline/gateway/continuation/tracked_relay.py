"""What must the gateway see of a stream that it may have to continue?

Its events pass through like any other's, but the token ids in them are noted, and taken out again
unless the client asked for them: what is left is byte for byte what the engine sends without (an
engine that parses answers into reasoning or tool calls sends some empty chunks more).

What comes before the first token (a chat's chunk with the role, which vLLM sends together with it)
is held back until then: a stream of which the client has had no token can be made again from the
beginning.
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
    """Bytes of the engine in, whole events for the client out; the trail grows on the way."""

    def __init__(self, trail: TokenHistory, *, shows_ids: bool) -> None:
        self._trail = trail
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
    def num_output_tokens(self) -> int | None:
        return len(self._trail.emitted_ids) or self._relay.num_output_tokens

    def feed(self, data: bytes) -> bytes:
        """What may go to the client now: whole events, or nothing."""
        events = self._relay.feed(data)
        if not events:
            return events
        if self._relay.is_inside_event:
            self._trail.lost = f"an event is longer than {MAX_HELD_BYTES} bytes"
        if self._trail.lost is None:
            self._note(events)
        if not self._shows_ids and _IDS_MARK in events:
            events = _IDS.sub(b"null", events)
        if not (self._trail.has_begun or self.saw_done or are_comments(events)):
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
                self._trail.note(decode_chunk(payload))
            except (msgspec.DecodeError, OverflowError, UnicodeDecodeError):
                self._trail.lost = "an event is no chunk of a stream"
                return

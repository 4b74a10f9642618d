"""`EventRelay`: pass an engine's server-sent events to the client, whole events at a time.

The bytes are not parsed. Passing whole events only means that a stream can be ended with an error
event, or continued by another replica, at any moment. `EventSplitter` searches the bytes for the
event that ends a complete stream (`[DONE]` on most routes), an error event of the engine, the
usage, and the first event with a token. None of these marks can occur inside the JSON text of an
event, where quotes and line ends are escaped.

A route may send events before the first token: vLLM sends `response.created` before it computes the
prompt. They are held back until the first token, because a stream of which the client has received
nothing can begin anew on another replica.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from paceline.gateway.delivered import NOTHING, AnswerPart
from paceline.gateway.usage import MARK, Usage, usage_in

DONE = (b"data: [DONE]", b"data:[DONE]")
ERROR = (b'data: {"error"', b'data:{"error"')
"""The blank is optional; TGI before 2.3 sends none."""
_DATA = b"data:"
_ABORTED_MARK = re.compile(rb'"finish_reason":\s?"abort"')
"""vLLM's engine core gives this reason to all its requests when it shuts down: the answer is
incomplete."""
ABORTED = b'{"error":{"message":"the engine ended","code":503}}'
_FINISHED = re.compile(rb'"finish_reason":\s?"')
UNFINISHED = b'{"error":{"message":"the stream ended without a finish_reason","code":503}}'
_USAGE_EVENT = re.compile(
    rb'^data:(?=[^\n]*"choices":\s?\[\])[^\n]*"usage":\s?\{[^\n]*\n\r?\n', re.MULTILINE
)
"""The event that `stream_options.include_usage` adds before the end of a stream."""
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_COMMENT = b":"


@dataclass(frozen=True, slots=True)
class EventMarks:
    """Which events of a route mean what. A mark is the beginning of a line of the event."""

    end: tuple[bytes, ...] = DONE
    """The last event of a complete stream has a line that begins with one of these."""
    error: tuple[bytes, ...] = ERROR
    """An event with a line that begins with one of these is an error from the engine."""
    before_tokens: tuple[bytes, ...] = ()
    """Events that begin with one of these carry no token; all others except comments do."""


OPENAI_MARKS = EventMarks()
"""Streams of chat chunks and of completions. vLLM sends the chunk with the role of a chat together
with the first token."""


class Relay(Protocol):
    """Passes one engine stream to the client; not reusable."""

    def feed(self, data: bytes) -> AnswerPart:
        """Take bytes from the engine and return the part of the answer that can be sent now.

        It has whole events or nothing, or comments alone; part of an event only if its `ends_event`
        is false. Every part must be sent, in order, or the stream be ended. ValueError when the
        bytes are no event stream.
        """
        ...

    @property
    def saw_done(self) -> bool:
        """The stream is complete; the relay does not wait for what may follow."""
        ...

    @property
    def error(self) -> bytes | None:
        """The JSON of the engine's error event; None when there was none."""
        ...

    @property
    def has_tokens(self) -> bool:
        """The engine has sent the first token, or the end of an answer without any."""
        ...


class SplitterRelay:
    """What a relay knows from its splitter; see `Relay`."""

    def __init__(self, splitter: EventSplitter) -> None:
        self._splitter = splitter

    @property
    def saw_done(self) -> bool:
        return self._splitter.saw_done

    @property
    def error(self) -> bytes | None:
        return self._splitter.error

    @property
    def has_tokens(self) -> bool:
        return self._splitter.has_tokens


class EventRelay(SplitterRelay):
    """Passes bytes unchanged, whole events at a time."""

    def __init__(
        self,
        max_event_bytes: int,
        marks: EventMarks = OPENAI_MARKS,
        *,
        hides_usage: bool = False,
        needs_reason: bool = False,
    ) -> None:
        """See `EventSplitter`."""
        super().__init__(
            EventSplitter(
                max_event_bytes, marks, hides_usage=hides_usage, needs_reason=needs_reason
            )
        )

    def feed(self, data: bytes) -> AnswerPart:
        """See `Relay`."""
        splitter = self._splitter
        events = splitter.feed(data)
        if not events:
            return NOTHING
        return AnswerPart(events, None, not splitter.is_inside_event, splitter.usage)


class EventSplitter:
    """Cuts the bytes of a stream after the last whole event, and finds its marks."""

    def __init__(
        self,
        max_event_bytes: int,
        marks: EventMarks = OPENAI_MARKS,
        *,
        hides_usage: bool = False,
        needs_reason: bool = False,
    ) -> None:
        """A longer event passes in parts; more than this before the first token is not held.

        `hides_usage` removes the event with the usage, which the client did not ask for.
        With `needs_reason`, a stream that ends without a `finish_reason` was cut short, and its end
        is an error: llama-cpp-python ends a stream so when another request interrupts it.
        """
        self._hides_usage = hides_usage
        self._lacks_reason = needs_reason
        self._max_event_bytes = max_event_bytes
        self._marks = marks
        self._tokenless = (_COMMENT, *marks.before_tokens)
        self._is_inside_last_event = False
        self._held = b""
        self._before_tokens = b""
        self._is_inside_event = False
        self.has_tokens = False
        """See `Relay`."""
        self.saw_done = False
        """The event that ends a complete stream was seen."""
        self.error: bytes | None = None
        """The JSON of the engine's error event; later bytes are dropped."""
        self.usage: Usage | None = None
        """The last usage seen; None when there was none."""

    @property
    def is_inside_event(self) -> bool:
        """Part of an event longer than `max_event_bytes` was passed on, its end was not."""
        return self._is_inside_event

    def feed(self, data: bytes) -> bytes:
        """The bytes that can be sent to the client now: whole events, or nothing."""
        if self.error is not None:
            return b""
        if self._held:
            data = self._held + data
            self._held = b""
        if not data.endswith((b"\n\n", b"\r\n\r\n")):
            end = max(_end_of(b"\n\n", data), _end_of(b"\r\n\r\n", data))
            if len(data) - end > self._max_event_bytes:
                return self._pass_part(data)
            self._held = data[end:]
            data = data[:end]
        if data:
            if has_error(data, self._marks.error):
                data, self.error = split_at_error(data, self._marks.error)
            if b'"abort"' in data and (aborted := _ABORTED_MARK.search(data)):
                data, self.error = _before_event_at(aborted.start(), data), ABORTED
            if self._lacks_reason:
                data = self._check_reason(data)
            self._note(data)
            if self._hides_usage and MARK in data:
                data = _USAGE_EVENT.sub(b"", data)
            if not self.has_tokens:
                self._find_token(data)
                data = self._hold_back(data)
            self._is_inside_event = False
        return data

    def _pass_part(self, data: bytes) -> bytes:
        """Whole events and the beginning of one that is too long to be held."""
        if not self.has_tokens:
            self._find_token(data)
            data, self._before_tokens = self._before_tokens + data, b""
        self._is_inside_event = True
        self._lacks_reason = False  # it may be split between two parts
        self._is_inside_last_event |= _has_line(data, self._marks.end)
        return data

    def _check_reason(self, events: bytes) -> bytes:
        """These events; those before the end if it comes without a reason, which is an error."""
        if _FINISHED.search(events):
            self._lacks_reason = False
        elif _has_line(events, self._marks.end):
            events, self.error = events[: _first_line(events, self._marks.end)], UNFINISHED
        return events

    def _find_token(self, data: bytes) -> None:
        if self._is_inside_event:  # its beginning was searched when it was passed on
            end = _EVENT_END.search(data)
            data = b"" if end is None else data[end.end() :]
        events = _EVENT_END.split(data)
        self.has_tokens = any(event and not event.startswith(self._tokenless) for event in events)

    def _hold_back(self, events: bytes) -> bytes:
        """The events that can be sent now; those before the first token are kept for later."""
        if are_comments(events):
            return events
        events, self._before_tokens = self._before_tokens + events, b""
        is_sent = self.has_tokens or self._is_inside_event or len(events) > self._max_event_bytes
        if not is_sent:
            self._before_tokens, events = events, b""
        return events

    def _note(self, events: bytes) -> None:
        if self._is_inside_last_event or _has_line(events, self._marks.end):
            self.saw_done = True
        if MARK in events:
            self.usage = usage_in(events) or self.usage


def is_aborted(answer: bytes) -> bool:
    """Whether an answer that is not streamed was cut short by an engine that shut down."""
    return b'"abort"' in answer and _ABORTED_MARK.search(answer) is not None


def are_comments(events: bytes) -> bool:
    """Whether whole events consist of comments only, such as keep-alives."""
    return events.startswith(b":") and all(
        not line or line.startswith(b":") for line in events.splitlines()
    )


def has_error(events: bytes, marks: tuple[bytes, ...] = ERROR) -> bool:
    """Whether one of these events is an error of the engine."""
    return _has_line(events, marks)


def split_at_error(events: bytes, marks: tuple[bytes, ...] = ERROR) -> tuple[bytes, bytes]:
    """(events before the first error, the JSON of the error event).

    Call it only when `has_error` is true.
    """
    start = _first_line(events, marks)
    json_start = events.find(_DATA, start)
    json_start = len(events) if json_start < 0 else json_start + len(_DATA)
    end = events.find(b"\n", json_start)
    end = len(events) if end < 0 else end
    return events[:start], events[json_start:end].strip()


def _has_line(events: bytes, marks: tuple[bytes, ...]) -> bool:
    """Whether a line begins with one of the marks."""
    for mark in marks:  # called for every chunk: a generator would cost more than the search
        if mark in events and (events.startswith(mark) or b"\n" + mark in events):
            return True
    return False


def _first_line(events: bytes, marks: tuple[bytes, ...]) -> int:
    """Where the first line starts that begins with one of the marks; there must be one."""
    starts = [(b"\n" + events).find(b"\n" + mark) for mark in marks]
    return min(start for start in starts if start >= 0)


def _before_event_at(at: int, events: bytes) -> bytes:
    return events[: max(_end_of(b"\n\n", events[:at]), _end_of(b"\r\n\r\n", events[:at]))]


def _end_of(mark: bytes, data: bytes) -> int:
    position = data.rfind(mark)
    return 0 if position < 0 else position + len(mark)

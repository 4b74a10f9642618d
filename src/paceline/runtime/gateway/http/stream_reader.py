"""`StreamReader`: read an engine's stream up to its end, its first error, or the end of its bytes.

It finds out what each event is, whatever its form: a chunk, the mark of the end, an error, a
comment. What follows the end or an error is not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES, Event, EventParser
from paceline.runtime.gateway.http.stream_chunk import Chunk, read_chunk
from paceline.runtime.gateway.usage import Usage, usage_in

DONE = b"data: [DONE]\n\n"
_DONE = b"[DONE]"
ABORTED = b'{"error":{"message":"the engine ended","code":503}}'
"""vLLM's engine core gives the reason `abort` to all its requests when it shuts down: the answer is
incomplete."""


@dataclass(frozen=True, slots=True)
class EventNames:
    """Which named events of a route mean what. Names are those of the `event:` line, or the `type`
    of the data."""

    end: frozenset[str] = frozenset()
    """The last event of a complete stream; without any, [DONE]."""
    error: frozenset[str] = frozenset({"error"})
    """An error from the engine."""
    before_tokens: frozenset[str] = frozenset()
    """They carry no token; all others do."""


UNNAMED = EventNames()
"""Streams of chat chunks and of completions."""


class StreamEvent(NamedTuple):
    """One event to be passed on."""

    raw: bytes
    """See `Event`."""
    chunk: Chunk | None
    """None for comments and for the mark of the end."""
    is_comment: bool = False
    name: str = ""
    """Empty where events have none."""


class StreamReader:
    """Reads one stream."""

    __slots__ = (
        "_begun", "_finished", "_names", "_needs_reason", "_num_choices", "_parser", "error",
        "fault", "saw_done", "usage",
    )  # fmt: skip

    def __init__(
        self,
        names: EventNames = UNNAMED,
        *,
        num_choices: int = 1,
        needs_reason: bool = True,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """The answer has `num_choices`.

        A stream was cut short if its end comes before any choice, or while one that has begun has
        no `finish_reason`, and that is an error: llama-cpp-python ends a stream so when another
        request interrupts it. Without `needs_reason`, one that has begun is enough: TGI gives no
        reason after a tool call.
        """
        self._parser = EventParser(max_event_bytes)
        self._names = names
        self._num_choices = num_choices
        self._needs_reason = needs_reason
        self._finished: set[int] = set()
        self._begun: set[int] = set()
        self.saw_done = False
        """The event that ends a complete stream was read."""
        self.error: bytes | None = None
        """The JSON of the engine's error event; None when there was none."""
        self.fault: str | None = None
        """Why what follows is no stream of this API; None while it is one."""
        self.usage: Usage | None = None
        """The last usage read; None when there was none."""

    @property
    def has_finished(self) -> bool:
        """Every choice has its `finish_reason`: the answer is complete, the stream may not be."""
        return len(self._finished) >= self._num_choices

    @property
    def num_held_bytes(self) -> int:
        """Bytes of an event whose end has not come."""
        return self._parser.num_held_bytes

    def read(self, data: bytes) -> list[StreamEvent]:
        """The events that are whole now; without data, the stream has ended, and its last event may
        lack the blank line.

        An event that is no JSON object, or one that is too long, is a `fault`. An event that is cut
        at the end of the stream is none.
        """
        read: list[StreamEvent] = []
        try:
            if self.saw_done or self.error is not None or self.fault is not None:
                return read
            for event in self._parser.feed(data) if data else self._parser.end():
                stream_event = self._read(event)
                if stream_event is not None:
                    read.append(stream_event)
                if self.saw_done or self.error is not None or self.fault is not None:
                    break
        except ValueError as error:
            if data:
                self.fault = str(error)
        return read

    def _read(self, event: Event) -> StreamEvent | None:
        data = event.data
        if data is None:
            return StreamEvent(event.raw, None, is_comment=True)
        if data == _DONE:
            return self._read_done()
        chunk = read_chunk(data)
        name = event.name.decode("utf-8", "replace") if event.name else chunk.type or ""
        if chunk.is_error or (name and name in self._names.error):
            self.error = data
            return None
        if not self._has_contents(chunk, name):
            # Not of this API: the client must not read what a server or a proxy says there.
            self.error = data if chunk.explains else None
            return None
        for choice in chunk.choices or ():
            self._begun.add(choice.index)
            if choice.finish_reason in ("abort", "error"):
                self.error = ABORTED
                return None
            if choice.finish_reason:
                self._finished.add(choice.index)
            else:
                choice.finish_reason = None  # some servers send "" until the end
        if chunk.has_usage:
            self.usage = usage_in(b'"usage":' + bytes(chunk.usage)) or self.usage
        elif name:  # inside
            self.usage = usage_in(data) or self.usage
        if name:
            self.saw_done = name in self._names.end
        return StreamEvent(event.raw, chunk, name=name)

    def _has_contents(self, chunk: Chunk, name: str) -> bool:
        if self._names.end:
            return name.startswith("response.")
        return chunk.choices is not None or chunk.has_usage

    def _read_done(self) -> StreamEvent | None:
        if self._names.end:
            return None  # of a proxy, on a route that ends otherwise
        if not self._begun or (self._needs_reason and self._begun != self._finished):
            self.fault = "the stream ended before its answer was complete"
            return None
        self.saw_done = True
        return StreamEvent(DONE, None)

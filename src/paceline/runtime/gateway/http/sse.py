"""`Relay`, `EventRelay`: pass an engine's stream to the client, whole events at a time.

Passing whole events only means that a stream can be ended with an error event, or continued by
another replica, at any moment.

Servers send events before the first token: vLLM `response.created`, before it computes the prompt,
others the role of a chat or the results of a filter. They are held back until the first token,
because a stream of which the client has received nothing can begin anew on another replica.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from paceline.runtime.gateway.delivered import NOTHING, AnswerPart
from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES
from paceline.runtime.gateway.http.stream_reader import (
    DONE,
    UNNAMED,
    EventNames,
    StreamEvent,
    StreamReader,
)

_HELD_EVENT_BYTES = 64
"""What Python needs for an event beside its bytes."""
_NUM_REPETITIONS = 2
"""Events before the first token that repeat the request: response.created and .in_progress."""
_MAX_EVENTS_BEFORE_TOKENS = 64
"""Then a stream has begun: it may have its tokens in fields that are not known here. A chat has a
role for each choice, of which there are 8 at most by default."""


class Relay(ABC):
    """Passes one engine stream to the client; not reusable."""

    def __init__(self, reader: StreamReader, max_held_bytes: int = MAX_EVENT_BYTES) -> None:
        """Events of at most this length in all are held before the first token."""
        self._reader = reader
        self._max_held_bytes = max_held_bytes
        self._held: list[bytes] = []
        """Events before the first token."""
        self._num_held_bytes = 0

    @abstractmethod
    def feed(self, data: bytes) -> AnswerPart:
        """Take bytes from the engine and return the part of the answer that can be sent now.

        Without data, the engine's bytes are over. The part has whole events or nothing, or comments
        alone. Every part must be sent, in order, or the stream be ended. ValueError when the events
        are none that this relay can pass on.
        """

    @abstractmethod
    def closing_part(self) -> AnswerPart:
        """What a stream lacks that has finished and whose end did not come. Every part was sent.

        ValueError when that cannot be known.
        """

    @property
    @abstractmethod
    def has_tokens(self) -> bool:
        """The engine has sent the first token, or the end of an answer without any."""

    @property
    def saw_done(self) -> bool:
        """The stream is complete; the relay does not wait for what may follow."""
        return self._reader.saw_done

    @property
    def has_finished(self) -> bool:
        """The answer is complete; only closing events may be missing."""
        return self._reader.has_finished

    @property
    def error(self) -> bytes | None:
        """The JSON of the engine's error event; None when there was none."""
        return self._reader.error

    @property
    def fault(self) -> str | None:
        """Why what follows is no stream of this API; None while it is one."""
        return self._reader.fault

    @property
    def lacks_usage(self) -> bool:
        """The client asked for the usage, and `closing_part` cannot have it."""
        return False

    @property
    def num_held_bytes(self) -> int:
        """Bytes that the relay keeps."""
        return self._num_held_bytes + self._reader.num_held_bytes

    def _hold(self, event: bytes) -> None:
        self._held.append(event)
        self._num_held_bytes += len(event) + _HELD_EVENT_BYTES
        if self._num_held_bytes > self._max_held_bytes:
            raise ValueError(f"more than {self._max_held_bytes} bytes came before the first token")

    def _release(self) -> list[bytes]:
        """What was held, now that the first token has come."""
        held, self._held, self._num_held_bytes = self._held, [], 0
        return held


class EventRelay(Relay):
    """Passes events without recording their tokens."""

    has_tokens = False

    def __init__(
        self,
        names: EventNames = UNNAMED,
        *,
        num_choices: int = 1,
        hides_usage: bool = False,
        shows_usage: bool = False,
        needs_reason: bool = True,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """See `StreamReader`. `hides_usage` removes the event with the usage, which the client did
        not ask for; with `shows_usage` it did."""
        super().__init__(
            StreamReader(
                names,
                num_choices=num_choices,
                needs_reason=needs_reason,
                max_event_bytes=max_event_bytes,
            ),
            _NUM_REPETITIONS * max_event_bytes,
        )
        self._hides_usage = hides_usage
        self._shows_usage = shows_usage
        self._names = names

    def feed(self, data: bytes) -> AnswerPart:
        events = self._reader.read(data)
        sent, has_events = [], False
        for event in events:
            if not event.is_comment:
                if self._is_hidden(event) or self._is_held(event):
                    continue
                has_events = True
            sent.append(event.raw)
        if not sent:
            return NOTHING
        if has_events and self._held:
            sent = self._release() + sent
        return AnswerPart(b"".join(sent), None, not has_events, self._reader.usage)

    def closing_part(self) -> AnswerPart:
        return AnswerPart(DONE, usage=self._reader.usage)

    @property
    def lacks_usage(self) -> bool:
        return self._shows_usage and self._reader.usage is None

    def _is_hidden(self, event: StreamEvent) -> bool:
        return self._hides_usage and event.chunk is not None and event.chunk.is_usage

    def _is_held(self, event: StreamEvent) -> bool:
        if self.has_tokens:
            return False
        if self._has_token(event) or len(self._held) == _MAX_EVENTS_BEFORE_TOKENS:
            self.has_tokens = True
            return False
        self._hold(event.raw)
        return True

    def _has_token(self, event: StreamEvent) -> bool:
        if event.chunk is None:
            return True  # the end
        if self._names.end:
            return event.name not in self._names.before_tokens
        return event.chunk.has_token

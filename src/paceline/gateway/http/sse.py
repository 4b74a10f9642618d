"""`EventRelay`: pass an engine's stream to the client, whole events at a time.

Passing whole events only means that a stream can be ended with an error event, or continued by
another replica, at any moment.

A route may send events before the first token: vLLM sends `response.created` before it computes the
prompt, and other servers the chunk with the role of a chat. They are held back until the first
token, because a stream of which the client has received nothing can begin anew on another replica.
"""

from __future__ import annotations

from typing import Protocol

from paceline.gateway.delivered import NOTHING, AnswerPart
from paceline.gateway.http.event_parser import MAX_EVENT_BYTES
from paceline.gateway.http.stream_reader import DONE, UNNAMED, EventNames, StreamEvent, StreamReader


class Relay(Protocol):
    """Passes one engine stream to the client; not reusable."""

    def feed(self, data: bytes) -> AnswerPart:
        """Take bytes from the engine and return the part of the answer that can be sent now.

        Without data, the engine's bytes are over. The part has whole events or nothing, or comments
        alone. Every part must be sent, in order, or the stream be ended. ValueError when the bytes
        are no stream of this API.
        """
        ...

    def closing_part(self) -> AnswerPart:
        """What a stream lacks that has finished and whose end did not come. Every part was sent."""
        ...

    @property
    def saw_done(self) -> bool:
        """The stream is complete; the relay does not wait for what may follow."""
        ...

    @property
    def has_finished(self) -> bool:
        """The answer is complete; only closing events may be missing."""
        ...

    @property
    def error(self) -> bytes | None:
        """The JSON of the engine's error event; None when there was none."""
        ...

    @property
    def has_tokens(self) -> bool:
        """The engine has sent the first token, or the end of an answer without any."""
        ...

    @property
    def num_held_bytes(self) -> int:
        """Bytes that the relay keeps."""
        ...


class ReaderRelay:
    """What a relay knows from its reader; see `Relay`."""

    def __init__(self, reader: StreamReader, max_held_bytes: int = MAX_EVENT_BYTES) -> None:
        """Events of at most this length in all are held before the first token."""
        self._reader = reader
        self._max_held_bytes = max_held_bytes
        self._num_held_bytes = 0

    @property
    def saw_done(self) -> bool:
        return self._reader.saw_done

    @property
    def has_finished(self) -> bool:
        return self._reader.has_finished

    @property
    def error(self) -> bytes | None:
        return self._reader.error

    @property
    def num_held_bytes(self) -> int:
        return self._num_held_bytes + self._reader.num_held_bytes

    def _hold(self, num_bytes: int) -> None:
        self._num_held_bytes += num_bytes
        if self._num_held_bytes > self._max_held_bytes:
            raise ValueError(f"more than {self._max_held_bytes} bytes came before the first token")


class EventRelay(ReaderRelay):
    """Passes events without recording their tokens."""

    def __init__(
        self,
        names: EventNames = UNNAMED,
        *,
        num_choices: int = 1,
        hides_usage: bool = False,
        needs_reason: bool = False,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """See `StreamReader`. `hides_usage` removes the event with the usage, which the client did
        not ask for."""
        super().__init__(
            StreamReader(
                names,
                num_choices=num_choices,
                needs_reason=needs_reason,
                max_event_bytes=max_event_bytes,
            ),
            max_event_bytes,
        )
        self._hides_usage = hides_usage
        self._before_tokens = names.before_tokens
        self._held: list[bytes] = []
        """Events before the first token."""
        self.has_tokens = False

    def feed(self, data: bytes) -> AnswerPart:
        """See `Relay`."""
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
            sent = self._held + sent
            self._held, self._num_held_bytes = [], 0
        return AnswerPart(b"".join(sent), None, not has_events, self._reader.usage)

    def closing_part(self) -> AnswerPart:
        """See `Relay`."""
        return AnswerPart(DONE, usage=self._reader.usage)

    def _is_hidden(self, event: StreamEvent) -> bool:
        return self._hides_usage and event.chunk is not None and event.chunk.is_usage

    def _is_held(self, event: StreamEvent) -> bool:
        if self.has_tokens:
            return False
        is_role = event.chunk is not None and event.chunk.is_role
        if not is_role and event.name not in self._before_tokens:
            self.has_tokens = True
            return False
        self._held.append(event.raw)
        self._hold(len(event.raw))
        return True

"""`ContinuedRelay`: give the events of the continuing replica the form of the stream begun before.

The continuing replica answers a completions request. Its events become chunks of the same stream:
the same id, time, model and kind of chunk, usage over the whole answer, and stop strings across the
resume point.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.runtime.gateway.continuation.resume_point import ResumePoint
from paceline.runtime.gateway.continuation.stop_strings import StopScanner
from paceline.runtime.gateway.continuation.stream_tail import StreamTail
from paceline.runtime.gateway.delivered import NOTHING, AnswerPart, DeliveredAnswer, TokenDelta
from paceline.runtime.gateway.http.event_parser import MAX_EVENT_BYTES
from paceline.runtime.gateway.http.sse import Relay
from paceline.runtime.gateway.http.stream_chunk import Choice, Chunk
from paceline.runtime.gateway.http.stream_reader import DONE, StreamReader
from paceline.runtime.gateway.usage import Usage


class ContinuedRelay(Relay):
    """Turns events of the continuing replica into parts of the stream that the client reads."""

    def __init__(
        self,
        request: Mapping[str, Any],
        delivered: DeliveredAnswer,
        point: ResumePoint,
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        """`delivered` is a stream that can be continued."""
        super().__init__(StreamReader(max_event_bytes=max_event_bytes))
        self._delivered = delivered
        self._shows_ids = bool(request.get("return_token_ids"))
        self._tail = StreamTail(request, delivered)
        self._stops = StopScanner(
            stop_strings_of(request),
            shows_stop=bool(request.get("include_stop_str_in_output")),
            delivered=delivered.text,
        )
        self._unsent = point.unsent_text
        self._num_kept = self._num_tokens = point.num_ids
        """Tokens of the answer up to the resume point, and up to the last one that was fed."""
        self._lacks_ids = False
        """The replica does not report the ids of its tokens."""
        self._has_count = True
        """`_num_tokens` is right."""
        self._shown_ids = delivered.ids[point.num_ids :] if self._shows_ids else array("I")
        """Ids after that one that the client has already received."""
        self._has_finished = False
        self._is_complete = False

    @property
    def has_tokens(self) -> bool:
        return self._num_tokens > self._num_kept or self._lacks_ids or self._has_finished

    @property
    def has_finished(self) -> bool:
        return self._has_finished

    @property
    def saw_done(self) -> bool:
        """The stream is complete, even if the engine sends more."""
        return self._is_complete

    def feed(self, data: bytes) -> AnswerPart:
        if self._is_complete:
            return NOTHING
        part = _Part(self._num_tokens + len(self._shown_ids))
        for event in self._reader.read(data):
            if event.chunk is not None:
                self._read(event.chunk, part)
        if self._has_finished and (self._reader.saw_done or self._stops.matched is not None):
            self._end(part)
        return self._build(part)

    def closing_part(self) -> AnswerPart:
        part = _Part(self._num_tokens)
        self._end(part)
        return self._build(part)

    def finish(self, reason: str) -> AnswerPart:
        """The end of an answer that has all its tokens: the unsent text and the closing events."""
        part = _Part(self._num_tokens)
        text = self._stops.feed(self._unsent) + self._stops.flush()
        part.add(
            (), text, reason, self._tail.render_chunk(text, (), reason, None, self._num_tokens)
        )
        self._end(part)
        return self._build(part)

    def _read(self, chunk: Chunk, part: _Part) -> None:
        if not chunk.is_known:
            raise ValueError("an event is no chunk of a stream")
        usage = self._reader.usage if chunk.has_usage else None
        for choice in chunk.choices or ():
            if not self._has_finished:
                self._add(choice, part, usage)
        if usage is not None and not self._stops.matched:
            self._num_tokens = self._num_kept + usage.output_tokens
            self._has_count = True

    def _add(self, choice: Choice, part: _Part, usage: Usage | None) -> None:
        ids = choice.token_ids or []
        try:
            array("I", ids)
        except OverflowError:
            raise ValueError("an event has ids that are no tokens") from None
        if choice.token_ids is None and choice.text:
            if self._shows_ids:
                raise ValueError("the replica does not report the token ids that the client reads")
            self._lacks_ids = True
            self._has_count = False
        new_ids = self._unseen(ids, ends=choice.finish_reason is not None)
        text = self._stops.feed(self._unsent + (choice.text or ""))
        self._unsent = ""
        reason: str | None = choice.finish_reason
        stop_reason = choice.stop_reason
        if self._stops.matched is not None:
            reason, stop_reason = "stop", self._stops.matched
        elif reason is not None:
            text += self._stops.flush()
        self._num_tokens += len(ids)
        if usage is not None:
            self._num_tokens, self._has_count = self._num_kept + usage.output_tokens, True
        if self._tail.shows_usage_always and not self._has_count:
            raise ValueError("the replica does not report the tokens that the client reads")
        self._has_finished = reason is not None
        event = self._tail.render_chunk(text, new_ids, reason, stop_reason, self._num_tokens)
        part.add(new_ids, text, reason, event)

    def _unseen(self, ids: list[int], *, ends: bool) -> list[int]:
        """The next ids without those that the client has already received.

        ValueError when they differ from those it has received, as sampled ones may.
        """
        num_seen = len(self._shown_ids) if ends else min(len(ids), len(self._shown_ids))
        if self._shown_ids[:num_seen].tolist() != ids[:num_seen]:
            raise ValueError("tokens that the client has received were generated differently")
        del self._shown_ids[:num_seen]
        return ids[num_seen:]

    def _end(self, part: _Part) -> None:
        """ValueError when the client is to read the usage and it is not known."""
        part.add_end(self._tail.render_end(self._num_tokens if self._has_count else None))
        self._is_complete = True

    def _build(self, part: _Part) -> AnswerPart:
        lost = "the replica does not report token ids" if self._lacks_ids else None
        usage = None
        if self._lacks_ids and self._has_count:
            usage = Usage(len(self._delivered.prompt_ids or ()), self._num_tokens)
        return part.build(lost, usage)


class _Part:
    """Collects one `AnswerPart`."""

    __slots__ = ("_data", "_finish_reason", "_has_usage", "_ids", "_start", "_text")

    def __init__(self, start: int) -> None:
        self._start = start
        self._data: list[bytes] = []
        self._ids: list[int] = []
        self._text = ""
        self._finish_reason: str | None = None
        self._has_usage = False

    def add(self, ids: Sequence[int], text: str, finish_reason: str | None, event: bytes) -> None:
        self._ids += ids
        self._text += text
        self._finish_reason = finish_reason
        self._data.append(event)

    def add_end(self, events: bytes) -> None:
        self._has_usage = events != DONE
        self._data.append(events)

    def build(self, lost: str | None, usage: Usage | None) -> AnswerPart:
        """`lost` says why ids are missing, and `usage` counts the tokens then."""
        if not self._data:
            return NOTHING
        delta = TokenDelta(
            self._start,
            self._ids,
            self._text,
            self._finish_reason,
            has_usage=self._has_usage,
            lost=lost,
        )
        return AnswerPart(b"".join(self._data), delta, usage=usage)


def stop_strings_of(request: Mapping[str, Any]) -> list[str]:
    stop = request.get("stop")
    return [stop] if isinstance(stop, str) else list(stop or ())


def max_held_chars(request: Mapping[str, Any]) -> int:
    """Characters that vLLM holds back for stop strings."""
    stops = stop_strings_of(request)
    if not stops or request.get("include_stop_str_in_output"):
        return 0
    return max(map(len, stops)) - 1

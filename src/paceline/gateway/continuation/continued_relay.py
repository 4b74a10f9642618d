"""`ContinuedRelay`: give the events of the continuing replica the form of the stream begun before.

The continuing replica answers a completions request. Its events become chunks of the same stream:
the same id, time, model and kind of chunk, usage over the whole answer, and stop strings across the
resume point.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from paceline.gateway.continuation.chunks import Choice, decode_chunk
from paceline.gateway.continuation.resume_point import ResumePoint
from paceline.gateway.continuation.stop_strings import StopScanner
from paceline.gateway.continuation.stream_tail import DONE, StreamTail
from paceline.gateway.continuation.tracked_relay import MAX_HELD_BYTES
from paceline.gateway.delivered import NOTHING, AnswerPart, DeliveredAnswer, TokenDelta
from paceline.gateway.http.sse import EventSplitter, SplitterRelay


class ContinuedRelay(SplitterRelay):
    """Turns events of the continuing replica into parts of the stream that the client reads."""

    def __init__(
        self, request: Mapping[str, Any], delivered: DeliveredAnswer, point: ResumePoint
    ) -> None:
        """`delivered` is a stream that can be continued."""
        super().__init__(EventSplitter(MAX_HELD_BYTES))
        self._shows_ids = bool(request.get("return_token_ids"))
        self._tail = StreamTail(request, delivered)
        self._stops = StopScanner(
            stop_strings_of(request),
            shows_stop=bool(request.get("include_stop_str_in_output")),
            delivered=delivered.text,
        )
        self._unsent = point.unsent_text
        self._num_tokens = point.num_ids
        """Ids of the answer up to the last one that was fed."""
        self._shown_ids = delivered.ids[point.num_ids :] if self._shows_ids else array("I")
        """Ids after that one that the client has already received."""
        self._has_finished = False
        self._is_complete = False

    @property
    def saw_done(self) -> bool:
        """The stream is complete, even if the engine sends more."""
        return self._is_complete

    def feed(self, data: bytes) -> AnswerPart:
        """See `Relay`. ValueError for bytes that are no event of a completions stream."""
        if self._is_complete:
            return NOTHING
        part = _Part(self._num_tokens + len(self._shown_ids))
        events = self._splitter.feed(data)
        if self._splitter.is_inside_event:
            raise ValueError(f"an event is longer than {MAX_HELD_BYTES} bytes")
        for line in events.split(b"\n"):
            if not line.startswith(b"data: {"):
                continue
            try:
                chunk = decode_chunk(line[6:])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ValueError(f"an event is no chunk of a stream: {error}") from error
            for choice in chunk.choices:
                if not self._has_finished:
                    self._add(choice, part)
        if self._has_finished and (self._splitter.saw_done or self._stops.matched is not None):
            self._end(part)
        return part.build()

    def finish(self, reason: str) -> AnswerPart:
        """The end of an answer that has all its tokens: the unsent text and the closing events."""
        part = _Part(self._num_tokens)
        text = self._stops.feed(self._unsent) + self._stops.flush()
        part.add(
            (), text, reason, self._tail.render_chunk(text, (), reason, None, self._num_tokens)
        )
        self._end(part)
        return part.build()

    def _add(self, choice: Choice, part: _Part) -> None:
        ids = choice.token_ids or []
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
        part.add_end(self._tail.render_end(self._num_tokens))
        self._is_complete = True


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

    def build(self) -> AnswerPart:
        if not self._data:
            return NOTHING
        delta = TokenDelta(
            self._start, self._ids, self._text, self._finish_reason, has_usage=self._has_usage
        )
        return AnswerPart(b"".join(self._data), delta)


def stop_strings_of(request: Mapping[str, Any]) -> list[str]:
    stop = request.get("stop")
    return [stop] if isinstance(stop, str) else list(stop or ())


def max_held_chars(request: Mapping[str, Any]) -> int:
    """Characters that vLLM holds back for stop strings."""
    stops = stop_strings_of(request)
    if not stops or request.get("include_stop_str_in_output"):
        return 0
    return max(map(len, stops)) - 1

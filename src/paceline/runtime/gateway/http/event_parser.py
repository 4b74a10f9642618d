"""`EventParser`: cut an event stream into whole events, and give all of them one form.

Servers, and proxies in front of them, write the same event in many ways: lines `id:`, `retry:` and
comments beside the data, other line ends, no blank after the colon, JSON over several `data:`
lines. Whatever an event looked like, it leaves here as

    event: NAME      only if it has a name other than `message`
    data: JSON       one line
                     a blank line

so the rest of the gateway reads, records and sends one form. An event that already has it passes
unchanged. `id` and `retry` are left out: they tell a browser how to reconnect, which no client of
this API does. The form of a stream is specified in the HTML standard, "Server-sent events".
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Longest event where a body has at most 8 MiB, see `max_event_bytes`."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_MAX_END_BYTES = 4
_MARK = b"\xef\xbb\xbf"
"""A byte order mark, which may begin a stream."""


def max_event_bytes(max_body_bytes: int) -> int:
    """The longest event of an answer, for bodies of at most this length.

    The first event of a tracked stream holds the ids of the prompt, some 7 bytes each. An event of
    a response may repeat the request, with null for what its tools leave out, beside the answer.
    """
    return max(MAX_EVENT_BYTES, 2 * max_body_bytes)


class Event(NamedTuple):
    """One event, or comments."""

    raw: bytes
    """In the form above; for comments an empty one, `:` and a blank line."""
    data: bytes | None
    """The data of the event; None for comments."""
    name: bytes = b""
    """Of the `event:` line; empty without one."""


COMMENT = Event(b":\n\n", None)
"""What is left of comments, which say that a stream is alive: a proxy may write anything into
them."""


class EventParser:
    """Parses one stream.

    >>> parser = EventParser()
    >>> parser.feed(b'id: 7\\r\\nevent: delta\\r\\ndata:{"a":\\r\\n')
    []
    >>> parser.feed(b'data:1}\\r\\n\\r\\n')
    [Event(raw=b'event: delta\\ndata: {"a": 1}\\n\\n', data=b'{"a":\\n1}', name=b'delta')]
    """

    __slots__ = ("_held", "_max_event_bytes")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._held = bytearray()
        self._max_event_bytes = max_event_bytes

    @property
    def num_held_bytes(self) -> int:
        """Bytes of an event whose end has not come."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Event]:
        """The events that are whole now. ValueError when one before is longer than allowed.

        Takes time linear in the bytes of the stream, however they are cut.
        """
        held = self._held
        if held:
            if len(held) > self._max_event_bytes:
                raise ValueError(f"an event is longer than {self._max_event_bytes} bytes")
            num_searched = max(0, len(held) - _MAX_END_BYTES)
            held += data
            if _EVENT_END.search(held, num_searched) is None:
                return []
            data = bytes(held)
            held.clear()
        elif _is_one_plain_event(data):  # as nearly always
            return [Event(data, data[6:-2])]
        blocks = _EVENT_END.split(data) if b"\r" in data else data.split(b"\n\n")
        held += blocks.pop()
        return [event for block in blocks if (event := _parse(block)) is not None]

    def end(self) -> list[Event]:
        """The event that the stream ended with instead of a blank line, if there is one."""
        block = bytes(self._held)
        self._held.clear()
        event = _parse(block)
        return [] if event is None else [event]


def _is_one_plain_event(data: bytes) -> bool:
    is_framed = data[:7] == b"data: {" and data[-3:] == b"}\n\n"
    return is_framed and data.find(b"\n") == len(data) - 2 and b"\r" not in data


def _parse(block: bytes) -> Event | None:
    """The event of these lines; None when it has neither data nor comments."""
    if block.startswith(b"data: ") and b"\n" not in block and b"\r" not in block:
        text = block[6:].strip()
        return Event(block + b"\n\n", text) if text else None
    name, data, has_comment = b"", [], False
    for line in _LINE_END.split(block.removeprefix(_MARK)):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.strip()
        elif field == b"error":  # llama.cpp's server until 2025: `error: {…}`
            name, data = b"error", [value]
        elif not field and line:
            has_comment = True
    text = b"\n".join(data).strip()
    if text:
        title = b"event: " + name + b"\n" if name not in (b"", b"message") else b""
        return Event(title + b"data: " + text.replace(b"\n", b" ") + b"\n\n", text, name)
    return COMMENT if has_comment else None

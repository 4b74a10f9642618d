"""`EventStreamReader`: read server-sent events as the HTML standard defines them.

It shares no code with the gateway or the mock server, and accepts what the standard accepts: lines
that end with LF, CR LF or CR, fields without a blank, comments, data over several lines, a byte
order mark at the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One event with data."""

    data: bytes
    name: str = "message"


class EventStreamReader:
    """Takes bytes in parts of any size. Text is not decoded, so a part may end in a character."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_at_start = True
        self._data: list[bytes] = []
        self._name = ""

    @property
    def num_rest_bytes(self) -> int:
        """Of an event that has not ended: lost if the stream ends here."""
        return len(self._rest.strip(b"\r\n")) + sum(map(len, self._data))

    def feed(self, part: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        self._rest += part
        if self._is_at_start:
            if len(self._rest) < len(_BOM) and _BOM.startswith(self._rest):
                return
            self._rest = self._rest.removeprefix(_BOM)
            self._is_at_start = False
        at = 0
        while found := _LINE_END.search(self._rest, at):
            if found[0] == b"\r" and found.end() == len(self._rest) and found.start() > at:
                break  # LF may follow
            line, at = self._rest[at : found.start()], found.end()
            event = self._take_line(line)
            if event is not None:
                yield event
        self._rest = self._rest[at:]

    def _take_line(self, line: bytes) -> Event | None:
        if not line:
            data, name = b"\n".join(self._data), self._name or "message"
            has_data, self._data, self._name = bool(self._data), [], ""
            return Event(data, name) if has_data else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode()
        return None

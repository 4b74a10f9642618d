"""Incremental decoder of server-sent events: bytes in, the data of completed events out.

Follows the event stream format of the HTML standard for the `data` field: lines end in LF, CR or
CRLF, a blank line ends an event, several data lines are joined by LF, comments and other fields
are ignored. Chunks may be split anywhere, even inside a line end or a UTF-8 sequence.
"""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Chosen empirically: far above any completion chunk, small enough to stop a runaway stream."""


class SseDecoder:
    """Decoder of one stream. `feed` mutates it; an unfinished event stays buffered.

    >>> decoder = SseDecoder()
    >>> decoder.feed(b"data: he"), decoder.feed(b"llo\\n"), decoder.feed(b"\\n")
    ([], [], [b'hello'])
    """

    def __init__(self) -> None:
        self._pending = b""
        self._data_lines: list[bytes] = []
        self._num_data_bytes = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that this chunk completes, in order.

        Raises ValueError when an event grows past MAX_EVENT_BYTES.
        """
        text = self._pending + chunk
        if self._at_start:
            if len(text) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(text):
                self._pending = text
                return []
            text = text.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        # A CR at the very end may be half of a CRLF: keep it for the next chunk.
        held_back = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text.removesuffix(held_back))
        self._pending = rest + held_back
        events = [event for line in lines if (event := self._take_line(line)) is not None]
        if len(self._pending) + self._num_data_bytes > MAX_EVENT_BYTES:
            raise ValueError(f"an event of the stream exceeds {MAX_EVENT_BYTES} bytes")
        return events

    def _take_line(self, line: bytes) -> bytes | None:
        if not line:
            event = b"\n".join(self._data_lines) if self._data_lines else None
            self._data_lines, self._num_data_bytes = [], 0
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data_lines.append(value.removeprefix(b" "))
            self._num_data_bytes += len(value)
        return None

"""Write the events of one stream in the server's answer style.

The bytes of an event may leave in several packets (`AnswerStyle.CUT`) or wait for the next events
(`AnswerStyle.COALESCED`), as in a proxy with a buffer. What waits when the connection breaks is
lost, although the request log counts its tokens as sent.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Collection

import msgspec

from paceline.testing.mock_vllm.answer_style import DECORATIONS, PACKETS, AnswerStyle

_BOM = b"\xef\xbb\xbf"
_DONE = b"data: [DONE]"
_GZIP_WINDOW_BITS = 31
_AFTER_DONE = (
    b": proxy closed\n\n",
    b'data: {"id":"late","object":"chat.completion.chunk","choices":[]}\n\n',
)
_MAX_COALESCED = 4
_NEAR_END_BYTES = 6
"""Half of all cuts fall into the end of an event, where line ends are cut apart."""


class StyledStream:
    """The events of one stream; equal seeds give equal bytes."""

    def __init__(self, styles: Collection[AnswerStyle], seed: int) -> None:
        self._styles = frozenset(styles)
        self._is_random = AnswerStyle.RANDOM in self._styles
        self._random = random.Random(seed)
        self._num_events = 0
        self._waiting: list[bytes] = []
        self._num_wanted = 1
        self._rest = b""
        """The end of a packet that was cut; it leaves with the next one."""
        self._compressor = (
            zlib.compressobj(wbits=_GZIP_WINDOW_BITS) if AnswerStyle.GZIP in styles else None
        )

    def take(self, *events: bytes) -> bytes:
        """The bytes that leave now, after these events; may be empty."""
        for event in events:
            if event.startswith(_DONE) and AnswerStyle.NO_DONE in self._styles:
                continue
            self._waiting.append(self._decorated(event))
        if len(self._waiting) < self._num_wanted:
            return b""
        return self._compressed(self._cut(self._drain()))

    def end(self) -> bytes:
        """The last bytes: everything that waited, and the events after the end."""
        data = self._drain()
        if AnswerStyle.AFTER_DONE in self._styles:
            data += b"".join(map(self._decorated, _AFTER_DONE))
        return self._compressed(data, is_last=True)

    def _drain(self) -> bytes:
        data = self._rest + b"".join(self._waiting)
        self._rest, self._waiting = b"", []
        if self._draws(AnswerStyle.COALESCED):
            self._num_wanted = self._random.randint(2, _MAX_COALESCED)
        else:
            self._num_wanted = 1
        return data

    def _cut(self, data: bytes) -> bytes:
        if len(data) < 2 or not self._draws(AnswerStyle.CUT):
            return data
        longest = min(len(data) - 1, self._random.choice((_NEAR_END_BYTES, len(data))))
        at = len(data) - self._random.randint(1, longest)
        data, self._rest = data[:at], data[at:]
        return data

    def _compressed(self, data: bytes, *, is_last: bool = False) -> bytes:
        if self._compressor is None:
            return data
        mode = zlib.Z_FINISH if is_last else zlib.Z_SYNC_FLUSH
        return self._compressor.compress(data) + self._compressor.flush(mode)

    def _draws(self, style: AnswerStyle) -> bool:
        if style in self._styles:
            return True
        is_drawable = style in DECORATIONS or style in PACKETS
        return self._is_random and is_drawable and self._random.random() < 0.5

    def _decorated(self, event: bytes) -> bytes:
        if not event.endswith(b"\n\n"):
            return event  # part of an event, which a fault left unfinished
        number, self._num_events = self._num_events, self._num_events + 1
        lines = event[:-2].split(b"\n")
        data = [line for line in lines if line.startswith(b"data: ")]
        others = [line for line in lines if not line.startswith(b"data: ")]
        if data and self._draws(AnswerStyle.MULTI_LINE):
            data = _spread(data)
        if data and not others and self._draws(AnswerStyle.EVENT):
            others.append(b"event: message")
        if data and self._draws(AnswerStyle.ID):
            others.append(b"id: %d" % number)
        if data and self._draws(AnswerStyle.RETRY):
            others.append(b"retry: 3000")
        self._random.shuffle(others)
        num_before = self._random.randint(0, len(others))
        lines = [*others[:num_before], *data, *others[num_before:]]
        if self._draws(AnswerStyle.NO_BLANK):
            lines = [_without_blank(line) for line in lines]
        if data and self._draws(AnswerStyle.COMMENT):
            lines = [b": before %d" % number, *lines, b":after"]
        if self._draws(AnswerStyle.KEEP_ALIVE):
            lines = [b": keep-alive", b"", *lines]
        start = _BOM if number == 0 and self._draws(AnswerStyle.BOM) else b""
        end = self._line_end()
        is_unended = event.startswith(_DONE) and AnswerStyle.UNENDED in self._styles
        return start + end.join([*lines, b""]) + (b"" if is_unended else end)

    def _line_end(self) -> bytes:
        if self._draws(AnswerStyle.CRLF):
            return b"\r\n"
        return b"\r" if self._draws(AnswerStyle.CR) else b"\n"


def _spread(data: list[bytes]) -> list[bytes]:
    """The JSON of an event over several data lines; anything else as it was."""
    try:
        text = msgspec.json.format(b"\n".join(line[6:] for line in data), indent=1)
    except msgspec.DecodeError:
        return data
    return [b"data: " + line for line in text.split(b"\n")]


def _without_blank(line: bytes) -> bytes:
    name, _, value = line.partition(b":")
    return name + b":" + value.removeprefix(b" ")

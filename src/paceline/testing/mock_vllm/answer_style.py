"""How a server, or a proxy in front of it, writes its answers: the same tokens, other bytes.

A client that reads server-sent events and HTTP by their specifications receives the same answer in
every style of `DECORATIONS` and `PACKETS`. The other styles change what the answer promises.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class AnswerStyle(StrEnum):
    ID = "id"
    """An `id:` line in every event."""
    EVENT = "event"
    """`event: message` in every event without a name."""
    RETRY = "retry"
    """A `retry:` line in every event."""
    COMMENT = "comment"
    """A comment line before and one after the data of every event."""
    KEEP_ALIVE = "keep_alive"
    """Events that are only a comment, between the others."""
    CRLF = "crlf"
    """Lines end with CR LF."""
    CR = "cr"
    """Lines end with CR alone."""
    NO_BLANK = "no_blank"
    """`data:` and `event:` without a blank after them."""
    MULTI_LINE = "multi_line"
    """The JSON of an event is spread over several data lines."""
    BOM = "bom"
    """A byte order mark before the first event."""
    RANDOM = "random"
    """Each event draws its decorations, and each packet its size, from all others up to here and
    from `coalesced` and `cut`; lines of one stream may end differently."""
    COALESCED = "coalesced"
    """Two to four events in each packet."""
    CUT = "cut"
    """Packets end inside an event, at any byte; the next packet has its rest."""
    NO_DONE = "no_done"
    """Streams end after their last event without `[DONE]`."""
    AFTER_DONE = "after_done"
    """Two more events follow `[DONE]`: a comment, and a chunk without choices."""
    UNENDED = "unended"
    """`[DONE]` is followed by one line end, not by a blank line."""
    JSON_LABEL = "json_label"
    """Streams have the content type application/json."""
    UNSTREAMED = "unstreamed"
    """A request for a stream gets one JSON document."""
    CLOSE_DELIMITED = "close_delimited"
    """HTTP/1.0 answers without a length, which end when the connection is closed."""
    GZIP = "gzip"
    """Bodies are compressed with gzip, whether the client accepts that or not."""


DECORATIONS = (
    AnswerStyle.ID,
    AnswerStyle.EVENT,
    AnswerStyle.RETRY,
    AnswerStyle.COMMENT,
    AnswerStyle.KEEP_ALIVE,
    AnswerStyle.CRLF,
    AnswerStyle.CR,
    AnswerStyle.NO_BLANK,
    AnswerStyle.MULTI_LINE,
    AnswerStyle.BOM,
)
"""Styles of single events, and the mark before them."""
PACKETS = (AnswerStyle.COALESCED, AnswerStyle.CUT)
EXCLUSIVE = (
    (AnswerStyle.CRLF, AnswerStyle.CR),
    (AnswerStyle.NO_DONE, AnswerStyle.AFTER_DONE),
    (AnswerStyle.NO_DONE, AnswerStyle.UNENDED),
    (AnswerStyle.AFTER_DONE, AnswerStyle.UNENDED),
)


def read_styles(names: Iterable[str]) -> frozenset[AnswerStyle]:
    """The styles of these names. Raises `ValueError` for an unknown one and for two that exclude
    each other."""
    try:
        styles = frozenset(AnswerStyle(name.strip()) for name in names)
    except ValueError:
        unknown = sorted({name.strip() for name in names} - set(AnswerStyle))
        raise ValueError(
            f"answer_style must be names of {', '.join(AnswerStyle)}; got {', '.join(unknown)}."
        ) from None
    for one, other in EXCLUSIVE:
        if {one, other} <= styles:
            raise ValueError(f"the answer styles {one} and {other} exclude each other.")
    return styles

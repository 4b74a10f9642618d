"""The event stream decoder gives the same events however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.foundation.load import sse
from paceline.foundation.load.sse import SseDecoder

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n"
    b"event: message\nid: 7\n"
    b'data: {"text":"\xc3\xa9\xe2\x82\xac"}\r\n\r\n'
    b"data:no space\n\n"
    b"data: two\rdata:  lines\r\r"
    b"\n\n"
    b"retry: 5\n\n"
    b"data\n\n"
    b"data: [DONE]\n\n"
    b"data: unfinished"
)
EVENTS = [
    b'{"text":"\xc3\xa9\xe2\x82\xac"}',
    b"no space",
    b"two\n lines",
    b"",
    b"[DONE]",
]


def test_a_stream_in_one_piece_gives_its_events() -> None:
    assert SseDecoder().feed(STREAM) == EVENTS


def test_a_stream_byte_by_byte_gives_the_same_events() -> None:
    """Splits inside the byte order mark, a CRLF and a UTF-8 sequence are all among these."""
    decoder = SseDecoder()
    assert [e for i in range(len(STREAM)) for e in decoder.feed(STREAM[i : i + 1])] == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_a_stream_cut_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    decoder = SseDecoder()
    edges = [0, *cuts, len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert [e for piece in pieces for e in decoder.feed(piece)] == EVENTS


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\ndata: b") == [b"a"]


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 10)
    decoder = SseDecoder()
    decoder.feed(b"data: 1234\n")
    with pytest.raises(ValueError, match="exceeds 10 bytes"):
        decoder.feed(b"data: 56789\n")

"""The reader of event streams follows the HTML standard; with examples of every form."""

from __future__ import annotations

import pytest

from chaos.event_stream import Event, EventStreamReader

STREAM = (
    b"\xef\xbb\xbf: a comment\r\n\r\ndata: one\r\n\r\n"
    b"id: 7\ndata:two\nretry: 10\n\n"
    b"event: named\rdata: three\rdata:  four\r\r"
    b"data\n\nevent: no data\n\n:\n\ndata: \xc3\xa9t\xc3\xa9\n: after\n\n"
)
EVENTS = [
    Event(b"one"),
    Event(b"two"),
    Event(b"three\n four", "named"),
    Event(b""),
    Event("été".encode()),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_every_form_of_the_standard_is_read_in_parts_of_any_size(size: int) -> None:
    reader = EventStreamReader()
    parts = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [event for part in parts for event in reader.feed(part)] == EVENTS
    assert reader.num_rest_bytes == 0


def test_an_event_ends_with_its_blank_line_also_if_that_is_a_cr() -> None:
    """The reader does not wait for a LF that may follow a blank line's CR."""
    reader = EventStreamReader()
    assert list(reader.feed(b"data: x\r\r")) == [Event(b"x")]
    assert list(reader.feed(b"\ndata: y\r\n\r\n")) == [Event(b"y")]


@pytest.mark.parametrize("end", [b"data: x", b"data: x\n", b"data: x\r\n", b"dat"])
def test_an_event_without_its_blank_line_is_none(end: bytes) -> None:
    reader = EventStreamReader()
    assert list(reader.feed(end)) == []
    assert reader.num_rest_bytes > 0

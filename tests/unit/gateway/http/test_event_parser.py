"""Events have one form, whatever a server or a proxy wrote, and however their bytes were cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.runtime.gateway.http.event_parser import COMMENT, Event, EventParser

PLAIN = b'data: {"a":1}\n\n'


def parsed(*parts: bytes) -> list[Event]:
    parser = EventParser()
    return [event for part in parts for event in parser.feed(part)]


def test_an_event_that_has_the_form_passes_unchanged() -> None:
    assert parsed(PLAIN) == [Event(PLAIN, b'{"a":1}')]


@pytest.mark.parametrize(
    "event",
    [
        b'data:{"a":1}\n\n',
        b'data: {"a":1}\r\n\r\n',
        b'data: {"a":1}\r\r',
        b'data: {"a":1}\n\r\n',
        b'id: 7\ndata: {"a":1}\n\n',
        b'data: {"a":1}\nid: 7\n\n',
        b'retry: 100\ndata: {"a":1}\n\n',
        b'event: message\ndata: {"a":1}\n\n',
        b'event:message\ndata: {"a":1}\n\n',
        b'event: \ndata: {"a":1}\n\n',
        b': comment\ndata: {"a":1}\n\n',
        b'data: {"a":1}\n: comment\n\n',
        b'id\ndata: {"a":1}\n\n',
        b'x-proxy: 1\ndata: {"a":1}\n\n',
        b'\xef\xbb\xbfdata: {"a":1}\n\n',
        b'\n\n\ndata: {"a":1}\n\n',
        b'data: {"a":1}   \n\n',
        b'data:   {"a":1}\nid: 7\n\n',
    ],
)
def test_a_decorated_event_gets_the_form_of_others(event: bytes) -> None:
    (found,) = parsed(event)
    assert found.data == b'{"a":1}'
    assert found.raw.replace(b"   ", b"") == PLAIN
    assert found.name in (b"", b"message")


def test_an_event_over_several_lines_becomes_one_line() -> None:
    (event,) = parsed(b'data: {"a":\ndata: 1}\n\n')
    assert event == Event(b'data: {"a": 1}\n\n', b'{"a":\n1}')


def test_the_name_of_an_event_stays() -> None:
    event = b'event: response.completed\ndata: {"a":1}\n\n'
    assert parsed(event) == [Event(event, b'{"a":1}', b"response.completed")]
    assert parsed(b"data: {}\nevent: a\n\n") == [Event(b"event: a\ndata: {}\n\n", b"{}", b"a")]


def test_a_field_named_error_is_an_error() -> None:
    assert parsed(b'error: {"message":"x"}\n\n')[0][1:] == (b'{"message":"x"}', b"error")


@pytest.mark.parametrize(
    "lines", [b"", b"id: 7", b"event: ping", b"data", b"data:", b"data: ", b"retry: 1"]
)
def test_an_event_without_data_is_none(lines: bytes) -> None:
    assert parsed(lines + b"\n\n" + PLAIN) == [Event(PLAIN, b'{"a":1}')]


def test_comments_are_kept_apart_and_say_nothing() -> None:
    """A proxy may write its addresses into them."""
    assert parsed(b": 10.0.0.7:8000\r\n: b\r\n\r\n" + PLAIN) == [COMMENT, Event(PLAIN, b'{"a":1}')]


MIXED = (
    'id: 1\r\nevent: delta\r\ndata: {"t":"né 😀"}\r\n\r\n'
    ": keep-alive\n\n"
    'data: {"t":"data: [DONE]\\n\\n"}\n\n'
    'data:{"t":\rdata:2}\r\r'
    "data: [DONE]\n\n"
).encode()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, len(MIXED)), max_size=12))
def test_the_cuts_between_packets_make_no_difference(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(MIXED)]
    parts = [MIXED[a:b] for a, b in itertools.pairwise(edges)]
    assert parsed(*parts) == parsed(MIXED)
    assert len(parsed(MIXED)) == 5


def test_cuts_at_every_byte_make_no_difference() -> None:
    assert parsed(*(MIXED[at : at + 1] for at in range(len(MIXED)))) == parsed(MIXED)


def test_what_is_not_whole_is_held_up_to_the_limit() -> None:
    parser = EventParser(max_event_bytes=20)
    assert parser.feed(PLAIN + b"data: 7890") == [Event(PLAIN, b'{"a":1}')]
    assert parser.num_held_bytes == 10
    assert parser.feed(b"1234567890a") == []
    with pytest.raises(ValueError, match="longer than 20 bytes"):
        parser.feed(b"1")


def test_the_last_event_may_lack_its_blank_line() -> None:
    parser = EventParser()
    assert parser.feed(b"data: [DONE]\n") == []
    assert parser.end() == [Event(b"data: [DONE]\n\n", b"[DONE]")]
    assert parser.num_held_bytes == 0


class CountingBytes(bytearray):
    """Counts the bytes that are copied out of it."""

    num_copied = 0

    def __bytes__(self) -> bytes:
        CountingBytes.num_copied += len(self)
        return bytes(memoryview(self))


@pytest.mark.parametrize("line", [b"x" * 64, b"x" * 58 + b"\ndata:"])
def test_a_long_event_in_small_parts_is_copied_once(line: bytes) -> None:
    """Copying it for each part would take seconds."""
    parser = EventParser()
    parser._held = CountingBytes()
    CountingBytes.num_copied = 0
    assert parser.feed(b"data:") == []
    for _ in range(10_000):
        assert parser.feed(line) == []
    assert CountingBytes.num_copied == 0
    (event,) = parser.feed(b"\n\n")
    assert CountingBytes.num_copied == len(line) * 10_000 + 7
    assert event.data is not None
    assert event.data.count(b"x") == line.count(b"x") * 10_000

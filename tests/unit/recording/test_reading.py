"""A recording is read as it was written, also one that was cut off; anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.recording.reading import RecordingUnusable, parse_recording, read_recording
from paceline.foundation.recording.records import encode, schema
from unit.recording.lines import BLOCK, END, HEADER, content, request

SCHEMA_FILE = Path(__file__).parents[3] / "docs" / "recording.schema.json"


def test_what_was_written_is_read() -> None:
    """Requests are in the order of their arrival, not of their end."""
    late, early = request(), request(arrived_s=0.5)
    recording = parse_recording(content(late, BLOCK, early, END), "r")
    assert (recording.header, recording.blocks, recording.end) == (HEADER, (BLOCK,), END)
    assert recording.requests == (early, late)
    assert (recording.seconds, recording.output_tokens) == (6.0, 30)


def test_a_byte_order_mark_and_line_ends_of_windows_are_no_part_of_it() -> None:
    """Some editors and tools write them when a file is opened and saved."""
    whole = content(BLOCK, request(), END)
    edited = b"\xef\xbb\xbf" + whole.replace(b"\n", b"\r\n")
    assert parse_recording(edited, "r") == parse_recording(whole, "r")


def test_a_file_that_was_cut_off_is_read_to_its_last_whole_line() -> None:
    """The engine was killed within a line; the block says how long the recording is."""
    whole = content(BLOCK, request())
    recording = parse_recording(whole + encode(request())[:30], "r")
    assert (len(recording.requests), recording.end, recording.seconds) == (1, None, 5.0)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "is empty"),
        (b"{}\n", "line 1 is no line of a recording"),
        (b"not JSON\n", "line 1 is no line of a recording"),
        (encode(BLOCK), "line 1: a recording has one header"),
        (content(HEADER), "line 2: a recording has one header"),
        (content(END, BLOCK), "line 3: a recording has one header, in line 1, and one end"),
        (content() + b'{"kind":"other"}\n', "line 2 is no line"),
        (content(request(accepted=(4, 1))), "none may exceed it"),
        (content(request(tried=(3,))), "one entry per entry"),
        (content().replace(b'version":1', b'version":2'), "schema_version 2; this release reads 1"),
        (content(request()).replace(b'"code"', b'"my secret text"'), "line 2 is no line"),
        (content(request()).replace(b"100", b"-1"), "line 2 is no line"),
    ],
)
def test_anything_else_is_refused_with_its_line(file: bytes, message: str) -> None:
    with pytest.raises(RecordingUnusable, match=message):
        parse_recording(file, "r")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingUnusable, match=r"missing\.jsonl cannot be read: No such file"):
        read_recording(tmp_path / "missing.jsonl")


def test_a_recording_has_no_field_for_text() -> None:
    """Every string of the schema is a constant, a version, a name of the engine, or a category."""
    properties = [
        (name, key, value)
        for name, definition in schema()["$defs"].items()  # type: ignore[attr-defined]
        for key, value in definition.get("properties", {}).items()
        if value.get("type") == "string"
    ]
    assert {(name, key) for name, key, _ in properties} == {
        ("Header", "paceline_version"),
        ("Header", "policy"),
        ("Header", "method"),
        ("RequestRecord", "category"),
    }


def test_the_schema_in_the_docs_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(schema()))

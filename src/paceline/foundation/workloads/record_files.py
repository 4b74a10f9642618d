"""Read the records of a file: JSON lines, one JSON array, JSON values in a row, or a table.

The text may begin with a byte order mark (UTF-8 or UTF-16, as Windows tools write them), have CRLF
line ends, and be compressed with gzip. Every record comes with its place, for messages.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path

from paceline.foundation.workloads.fields import WorkloadError

_GZIP = b"\x1f\x8b"
_BINARY = {b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file", b"PK\x03\x04": "a zip archive"}
"""First bytes of files that hold data sets in another form."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DELIMITERS = (",", ";", "\t")
_NOT_JSON = (ValueError, RecursionError)
"""Raised for a text that is not JSON, or that nests too deep to be read."""
_TEXT_COLUMNS = ("prompt", "task", "category", "session_id")
"""Columns of a table whose cells are texts even where they look like numbers."""

Placed = tuple[str, object]
"""Where a record stands ("prompts.jsonl, line 3"), and its value."""


def read_file(path: Path) -> str:
    """The text of a file, without its byte order mark; WorkloadError if it cannot be read."""
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
        kind = next((kind for mark, kind in _BINARY.items() if content.startswith(mark)), None)
        if kind is not None:
            raise WorkloadError(
                f"{path} is {kind}; write its rows as JSON lines, a JSON array or CSV"
            )
        return content.decode(encoding)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise WorkloadError(f"cannot read {path}: {error}") from error


def read_json_records(path: Path) -> Iterator[Placed]:
    """The values of a file of JSON: one per line, in one array, or one after the other."""
    yield from _json_records(read_file(path), path)


def read_records(path: Path) -> Iterator[Placed]:
    """As `read_json_records`; a file that does not begin as JSON is a table with a header.

    Its cells are separated by commas, semicolons or tabs, and are numbers where they look so.
    """
    text = read_file(path)
    if text.lstrip()[:1] in ("{", "[", ""):
        yield from _json_records(text, path)
    else:
        yield from _table_rows(text, path)


def _json_records(text: str, path: Path) -> Iterator[Placed]:
    if text.lstrip().startswith("["):
        try:
            items = json.loads(text)
        except _NOT_JSON:
            items = None  # One array per line, or broken: the lines say which.
        if isinstance(items, list):
            yield from ((f"{path}, item {n}", item) for n, item in enumerate(items, start=1))
            return
    # Only a newline ends a line: JSON allows U+2028 and other separators within a string.
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if lines and not _is_json(lines[0][1]):
        values = _values_in_a_row(text)
        if values is not None:
            yield from ((f"{path}, item {n}", value) for n, value in enumerate(values, start=1))
            return
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except _NOT_JSON as error:
            raise WorkloadError(f"{where} is not JSON: {error}") from error
        yield where, value


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except _NOT_JSON:
        return False
    return True


def _values_in_a_row(text: str) -> list[object] | None:
    """The JSON values of a text that may break a value into lines; None if it is not JSON."""
    decoder, values, start = json.JSONDecoder(), [], 0
    while start < len(text):
        if text[start].isspace() or text[start] == ",":
            start += 1
            continue
        try:
            value, start = decoder.raw_decode(text, start)
        except _NOT_JSON:
            return None
        values.append(value)
    return values


def _table_rows(text: str, path: Path) -> Iterator[Placed]:
    header = text.lstrip().split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=header.count)
    rows = csv.DictReader(
        io.StringIO(text.lstrip(), newline=""), delimiter=delimiter, skipinitialspace=True
    )
    skipped = text[: len(text) - len(text.lstrip())].count("\n")
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            where = f"{path}, line {rows.reader.line_num + skipped}"
            raise WorkloadError(f"{where} is not a row of a table: {error}") from error
        if row is None:
            return
        yield (
            f"{path}, line {rows.line_num + skipped}",
            {
                name.strip(): cell if name.strip() in _TEXT_COLUMNS else _read_cell(cell.strip())
                for name, cell in row.items()
                if isinstance(name, str) and isinstance(cell, str)
            },
        )


def _read_cell(text: str) -> str | int | float | None:
    """A whole number, else a finite number, else the text; None for an empty cell."""
    try:
        if text.isdecimal():
            return int(text)
        number = float(text)
    except ValueError:
        return text or None
    return number if math.isfinite(number) else text

"""Read a recorded trace: requests with the times at which they were sent.

A line has either a text (the fields of a prompt file) or lengths in tokens, under the names that
published traces use. docs/bench.md shows each form.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.workloads.fields import FieldReader, WorkloadError
from paceline.workloads.filler import FillerText
from paceline.workloads.prompt_files import read_file, read_json_lines
from paceline.workloads.prompts import PROMPT_FIELDS, Prompt, read_prompt

_TIME_NAMES = ("at_s", "timestamp", "TIMESTAMP")
_INPUT_NAMES = ("input_length", "input_tokens", "ContextTokens")
_OUTPUT_NAMES = ("output_length", "output_tokens", "GeneratedTokens")
_TEXT_NAMES = ("prompt", "task", "category")
"""Columns of a CSV file whose cells are texts even where they look like numbers."""
_TASK = "trace"


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One recorded request: a prompt, or the lengths from which one is made."""

    due_s: float
    """From the first request of the trace."""
    recorded: Prompt | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    block_ids: tuple[int, ...] = ()
    """Equal ids at the beginning of two requests are a shared prefix of 512 tokens each."""

    def prompt(self, number: int, filler: FillerText | None) -> Prompt:
        """The request to send. `filler` makes the text of an entry that has lengths only."""
        if self.recorded is not None:
            return dataclasses.replace(self.recorded, due_s=self.due_s)
        if filler is None:
            raise ValueError("an entry with lengths only needs a filler text")
        return Prompt(
            task=_TASK,
            messages=None,
            text=filler.prompt(self.input_tokens, f"request {number}", self.block_ids),
            max_tokens=self.output_tokens,
            ignore_eos=True,
            due_s=self.due_s,
        )


def load_trace(path: Path, speed: float = 1.0) -> list[TraceEntry]:
    """The entries in the order of their times, which begin at 0 and are divided by `speed`.

    A file that ends in .csv has a header; any other file has one JSON object per line.
    """
    if not speed > 0:
        raise ValueError(f"speed is {speed}; it must be above 0")
    lines = _read_csv(path) if path.suffix == ".csv" else read_json_lines(path)
    entries = [_read_entry(FieldReader(item, where)) for where, item in lines]
    if not entries:
        raise WorkloadError(f"{path} holds no request; write one JSON object per line")
    first_s = min(entry.due_s for entry in entries)
    moved = [dataclasses.replace(e, due_s=(e.due_s - first_s) / speed) for e in entries]
    return sorted(moved, key=lambda entry: entry.due_s)


def needs_filler(entries: Sequence[TraceEntry]) -> bool:
    """Whether the texts of some entries have to be made from their lengths."""
    return any(entry.recorded is None for entry in entries)


def _read_csv(path: Path) -> Iterator[tuple[str, object]]:
    rows = csv.DictReader(io.StringIO(read_file(path)))
    for row in rows:
        cells = {name: text for name, text in row.items() if isinstance(text, str)}
        yield (
            f"{path}, line {rows.line_num}",
            {
                name: text if name in _TEXT_NAMES else _read_cell(text)
                for name, text in cells.items()
            },
        )


def _read_cell(text: str) -> str | int | float:
    """A whole number, else a finite number, else the text."""
    if text.isdecimal():
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _read_entry(fields: FieldReader) -> TraceEntry:
    time_name = fields.one_of(_TIME_NAMES)
    if time_name is None:
        raise fields.error(
            "the time is missing; give at_s (seconds), timestamp (milliseconds, or a date with "
            "time) or TIMESTAMP (a date with time)"
        )
    due_s = _read_time(fields, time_name)
    if "messages" in fields or "prompt" in fields:
        fields.refuse_unknown((*PROMPT_FIELDS, time_name))
        return TraceEntry(due_s, recorded=read_prompt(fields, _TASK))
    input_name, output_name = fields.one_of(_INPUT_NAMES), fields.one_of(_OUTPUT_NAMES)
    if input_name is None or output_name is None:
        raise fields.error(
            "the request is missing; give messages or prompt, or the lengths in tokens "
            f"({' or '.join(_INPUT_NAMES)}, and {' or '.join(_OUTPUT_NAMES)})"
        )
    return TraceEntry(
        due_s=due_s,
        input_tokens=fields.count(input_name) or 1,
        output_tokens=fields.count(output_name) or 1,
        block_ids=_read_blocks(fields),
    )


def _read_time(fields: FieldReader, name: str) -> float:
    """Seconds from any fixed origin."""
    if name == "at_s":
        return fields.number(name, lowest=0) or 0.0
    value = fields.raw(name)
    if isinstance(value, str):
        try:
            moment = datetime.datetime.fromisoformat(value.strip())
        except ValueError as error:
            raise fields.error(
                f"{name} is {value!r}; it must be a number of milliseconds or a date with time "
                "such as 2023-11-16 18:17:03.98"
            ) from error
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp()
    return (fields.number(name) or 0.0) / 1000


def _read_blocks(fields: FieldReader) -> tuple[int, ...]:
    blocks = fields.raw("hash_ids") or []
    if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
        raise fields.error(f"hash_ids is {blocks!r}; it must be a list of whole numbers")
    return tuple(blocks)

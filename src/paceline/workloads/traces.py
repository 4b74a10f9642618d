"""Read a recorded trace: requests, and sessions of requests, with the times of their sending.

A record has either a text (the fields of a prompt file) or lengths in tokens, under the names that
public traces use. docs/bench.md shows each form; `trace_units` decides the unit of its times.
Records with equal `session_id` are one session: each is sent after the answer to the one before.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.workloads.fields import FieldReader, WorkloadError
from paceline.workloads.filler import FillerText
from paceline.workloads.prompts import PROMPT_FIELDS, Prompt, Turn, read_prompt
from paceline.workloads.record_files import read_records
from paceline.workloads.trace_forms import (
    FORMS,
    MOONCAKE_BLOCK_TOKENS,
    TimeUnit,
    TraceForm,
    find_form,
    fitting_block_tokens,
)
from paceline.workloads.trace_units import decide_unit

_TIME_NAMES = tuple(dict.fromkeys(["at_s", "at", *(form.time for form in FORMS)]))
"""`at` is the date in prompts that a gateway captured."""
_INPUT_NAMES = tuple(dict.fromkeys(["input_tokens", *(form.input for form in FORMS)]))
_OUTPUT_NAMES = tuple(dict.fromkeys(["output_tokens", *(form.output for form in FORMS)]))
_SESSION_FIELDS = ("session_id", "delay", "think_s")
_TASK = "trace"


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One recorded request, a prompt or the lengths from which one is made, and its later turns."""

    due_s: float | None
    """From the first request of the trace; None where the trace states no time."""
    recorded: Prompt | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    block_ids: tuple[int, ...] = ()
    """Equal ids at the beginning of two requests are a shared prefix."""
    block_tokens: int = MOONCAKE_BLOCK_TOKENS
    """Tokens that each of `block_ids` stands for."""
    think_s: float | None = None
    """Of a later turn: from the end of the answer before; None: its own time counts."""
    turns: tuple[TraceEntry, ...] = ()
    """Later requests of the session."""

    def prompt(self, number: int, filler: FillerText | None) -> Prompt:
        """The request to send. `filler` makes the text of an entry that has lengths only.

        A session of lengths without blocks is a chat: each length is that of a new message, after
        the messages and answers so far. Any other session sends each request as it was recorded.
        """
        key = f"request {number}"
        if self.turns and not any(e.recorded or e.block_ids for e in (self, *self.turns)):
            first = self._growing_chat(key, filler)
        else:
            later = (
                turn._turn(self, recorded=turn._request(f"{key} turn {n}", filler))
                for n, turn in enumerate(self.turns, start=1)
            )
            first = dataclasses.replace(self._request(key, filler), turns=tuple(later))
        return dataclasses.replace(first, due_s=self.due_s)

    def _request(self, key: str, filler: FillerText | None) -> Prompt:
        if self.recorded is not None:
            return self.recorded
        return Prompt(
            task=_TASK,
            messages=None,
            text=self._text(key, filler),
            max_tokens=self.output_tokens,
            ignore_eos=True,
            input_tokens=self.input_tokens,
        )

    def _growing_chat(self, key: str, filler: FillerText | None) -> Prompt:
        return Prompt(
            task=_TASK,
            messages=({"role": "user", "content": self._text(key, filler)},),
            text=None,
            max_tokens=self.output_tokens,
            ignore_eos=True,
            turns=tuple(
                turn._turn(self, content=turn._text(f"{key} turn {n}", filler))
                for n, turn in enumerate(self.turns, start=1)
            ),
        )

    def _turn(self, first: TraceEntry, content: str = "", recorded: Prompt | None = None) -> Turn:
        after_s = None
        if self.think_s is None and self.due_s is not None and first.due_s is not None:
            after_s = self.due_s - first.due_s
        return Turn(
            content,
            think_s=self.think_s or 0.0,
            max_tokens=self.output_tokens or None,
            after_s=after_s,
            recorded=recorded,
        )

    def _text(self, key: str, filler: FillerText | None) -> str:
        if filler is None:
            raise ValueError("an entry with lengths only needs a filler text")
        return filler.prompt(self.input_tokens, key, self.block_ids, self.block_tokens)


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was read."""

    entries: tuple[TraceEntry, ...]
    """In the order of their times, which begin at 0 and are divided by the speed."""
    form: str | None
    """The public trace whose form it has; None for any other."""
    time_unit: str | None
    """`s`, `ms`, `us`, `ns` or `date`; None for a trace without times."""
    duration_s: float
    """Between its first and its last time, as recorded."""
    num_left_out: int
    """Records without input or without output tokens, as failed requests have."""

    @property
    def has_times(self) -> bool:
        return self.time_unit is not None

    @property
    def needs_filler(self) -> bool:
        """Whether the texts of some requests have to be made from their lengths."""
        return _need_filler(self.entries)


@dataclass(frozen=True, slots=True)
class _Row:
    """One record while the unit of the trace's times is not known yet."""

    fields: FieldReader
    entry: TraceEntry
    """Without its time."""
    session: str | None
    time_name: str | None
    number: float | None
    """Its time as a number in the trace's unit; None for a date, or without a time."""
    moment_s: float | None
    """Its time as a date, or in a field that is in seconds."""
    delay: float | None
    """From the end of the answer before, in milliseconds or in the unit that the user gave."""

    @property
    def is_empty(self) -> bool:
        return self.entry.recorded is None and not (
            self.entry.input_tokens and self.entry.output_tokens
        )


def load_trace(
    path: Path,
    speed: float = 1.0,
    unit: TimeUnit | None = None,
    block_tokens: int | None = None,
) -> Trace:
    """The requests of a file of JSON or of a table with a header.

    `unit` is that of times that are numbers, and `block_tokens` what each of `hash_ids` stands for;
    None: what the file's form states. Raises WorkloadError for a bad record, and for times whose
    unit is not known.
    """
    if not speed > 0:
        raise ValueError(f"speed is {speed}; it must be above 0")
    records = [FieldReader(item, where) for where, item in read_records(path)]
    form = find_form({name for record in records for name in record.names})
    rows = [_read_row(record, form) for record in records]
    if not rows:
        raise WorkloadError(f"{path} holds no request; write one JSON object per line, or CSV")
    if block_tokens is None:
        block_tokens, form = _block_tokens(rows, form)
    scale, time_unit = _time_scale(rows, form, unit, path)
    kept = [row for row in rows if not row.is_empty]
    if not kept:
        raise WorkloadError(
            f"{path}: none of its {len(rows)} requests has both input and output tokens"
        )
    entries = [
        _scaled(row, scale, (unit or TimeUnit.MS).value, speed, block_tokens) for row in kept
    ]
    times = [entry.due_s for entry in entries if entry.due_s is not None]
    first_s = min(times, default=0.0)
    moved = [
        e if e.due_s is None else dataclasses.replace(e, due_s=e.due_s - first_s) for e in entries
    ]
    return Trace(
        entries=tuple(_sessions(kept, moved, has_times=bool(times))),
        form=None if form is None else form.name,
        time_unit=time_unit,
        duration_s=(max(times, default=0.0) - first_s) * speed,
        num_left_out=len(rows) - len(kept),
    )


def _need_filler(entries: Sequence[TraceEntry]) -> bool:
    return any(entry.recorded is None or _need_filler(entry.turns) for entry in entries)


def _read_row(fields: FieldReader, form: TraceForm | None) -> _Row:
    time_names = _TIME_NAMES if form is None else ("at_s", form.time)
    time_name = fields.one_of(time_names)
    session = fields.raw("session_id")
    if time_name is None and session is None:
        raise fields.error(
            "the time is missing; give at_s (seconds), timestamp (a date with time, or a number "
            "whose unit the form of the trace states or --trace-unit gives), or the fields of a "
            f"public trace ({', '.join(form.name for form in FORMS)}); it has "
            f"{', '.join(fields.names) or 'no field'}"
        )
    number, moment_s = (None, None) if time_name is None else _read_time(fields, time_name)
    think_s, delay = fields.number("think_s", lowest=0), fields.number("delay", lowest=0)
    if think_s is not None and delay is not None:
        raise fields.error("think_s and delay exclude each other; give one of them")
    return _Row(
        fields=fields,
        entry=dataclasses.replace(_read_entry(fields), think_s=think_s),
        session=None if session is None else str(session),
        time_name=time_name,
        number=number,
        moment_s=moment_s,
        delay=delay,
    )


def _read_entry(fields: FieldReader) -> TraceEntry:
    """The request, without its time and its blocks' size."""
    if "messages" in fields or "prompt" in fields:
        fields.refuse_unknown((*PROMPT_FIELDS, *_TIME_NAMES, *_SESSION_FIELDS, "output_length"))
        prompt = read_prompt(fields, _TASK)
        limit = fields.count("output_length")
        if limit is not None:
            prompt = dataclasses.replace(prompt, max_tokens=limit)
        return TraceEntry(None, recorded=prompt)
    input_name = next((name for name in _INPUT_NAMES if name in fields.names), None)
    output_name = next((name for name in _OUTPUT_NAMES if name in fields.names), None)
    if input_name is None or output_name is None:
        raise fields.error(
            "the request is missing; give messages or prompt, or the lengths in tokens "
            f"({' or '.join(_INPUT_NAMES)}, and {' or '.join(_OUTPUT_NAMES)})"
        )
    return TraceEntry(
        None,
        input_tokens=fields.count(input_name, lowest=0) or 0,
        output_tokens=fields.count(output_name, lowest=0) or 0,
        block_ids=_read_blocks(fields),
    )


def _read_time(fields: FieldReader, name: str) -> tuple[float | None, float | None]:
    """A number whose unit the whole trace decides, or seconds from a fixed origin."""
    if name == "at_s":
        return None, fields.number(name, lowest=0)
    value = fields.raw(name)
    if not isinstance(value, str):
        return fields.number(name), None
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise fields.error(
            f"{name} is {value!r}; it must be a number or a date with time such as "
            "2023-11-16 18:17:03.98"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return None, moment.timestamp()


def _read_blocks(fields: FieldReader) -> tuple[int, ...]:
    blocks = fields.raw("hash_ids") or []
    if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
        raise fields.error(f"hash_ids is {blocks!r}; it must be a list of whole numbers")
    return tuple(blocks)


def _block_tokens(rows: Sequence[_Row], form: TraceForm | None) -> tuple[int, TraceForm | None]:
    """Tokens per block, and the form, if the blocks do not speak against it."""
    stated = MOONCAKE_BLOCK_TOKENS if form is None else form.block_tokens
    counts = [(row.entry.input_tokens, len(row.entry.block_ids)) for row in rows]
    found = fitting_block_tokens(counts, stated)
    if found is None or found == stated:
        return stated, form
    return found, None if form is not None and form.block_tokens != found else form


def _time_scale(
    rows: Sequence[_Row], form: TraceForm | None, unit: TimeUnit | None, path: Path
) -> tuple[float, str | None]:
    """Seconds per unit of the rows' numbers, and the unit's name; None without times."""
    numbers = [row.number for row in rows if row.number is not None]
    dated = next((row for row in rows if row.moment_s is not None), None)
    if not numbers:
        if dated is None:
            return 1.0, None
        return 1.0, "s" if dated.time_name == "at_s" else "date"
    if dated is not None:
        numbered = next(row for row in rows if row.number is not None)
        raise numbered.fields.error(
            f"{numbered.time_name} is a number, but {dated.time_name} is a time in seconds or a "
            f"date in {dated.fields.where}; give all times of a trace in one form"
        )
    if unit is None:
        name = next(row.time_name for row in rows if row.number is not None) or ""
        unit = decide_unit(numbers, form, name, str(path))
    return unit.value, unit.label


def _scaled(
    row: _Row, scale: float, delay_scale: float, speed: float, block_tokens: int
) -> TraceEntry:
    due_s = row.moment_s if row.number is None else row.number * scale
    think_s = row.entry.think_s if row.delay is None else row.delay * delay_scale
    return dataclasses.replace(
        row.entry,
        due_s=None if due_s is None else due_s / speed,
        think_s=None if think_s is None else think_s / speed,
        block_tokens=block_tokens,
    )


def _sessions(
    rows: Sequence[_Row], entries: Sequence[TraceEntry], *, has_times: bool
) -> Iterator[TraceEntry]:
    """The first request of each session with its later turns, in the order of their times."""
    grouped: dict[object, list[tuple[_Row, TraceEntry]]] = {}
    for number, (row, entry) in enumerate(zip(rows, entries, strict=True)):
        key = number if row.session is None else row.session
        grouped.setdefault(key, []).append((row, entry))
    starts = []
    for members in grouped.values():
        if all(entry.due_s is not None for _, entry in members):
            members.sort(key=lambda member: member[1].due_s or 0.0)
        (first_row, first), *later = members
        if has_times and first.due_s is None:
            raise first_row.fields.error(
                f"session {first_row.session!r} begins here without a time, but other sessions "
                "have one; give every session's first request a time, or none"
            )
        starts.append(dataclasses.replace(first, turns=tuple(entry for _, entry in later)))
    yield from sorted(starts, key=lambda entry: entry.due_s or 0.0)

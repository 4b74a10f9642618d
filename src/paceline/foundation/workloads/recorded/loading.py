"""Read a recorded trace: requests, and sessions of requests, with the times of their sending.

A record has either a text (the fields of a prompt file) or lengths in tokens, under the names that
public traces use. docs/bench.md shows each form; `units` decides the unit of its times.
Records with equal `session_id` are one session: each is sent after the answer to the one before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.foundation.workloads.fields import FieldReader, WorkloadError
from paceline.foundation.workloads.record_files import read_records
from paceline.foundation.workloads.recorded.agents import FORM_FIELD, expand_sessions
from paceline.foundation.workloads.recorded.entries import Trace, TraceEntry
from paceline.foundation.workloads.recorded.forms import (
    FORMS,
    MOONCAKE_BLOCK_TOKENS,
    TimeUnit,
    TraceForm,
    find_form,
    fitting_block_tokens,
)
from paceline.foundation.workloads.recorded.rows import TraceRow, read_row
from paceline.foundation.workloads.recorded.units import decide_unit


def load_trace(
    path: Path,
    speed: float = 1.0,
    unit: TimeUnit | None = None,
    block_tokens: int | None = None,
) -> Trace:
    """The requests of a file of JSON or of a table with a header.

    Times count from the first record, and the duration to the last, whether or not they are sent.
    `unit` is that of times that are numbers, and `block_tokens` what each of `hash_ids` stands for;
    None: what the file's form states. Raises WorkloadError for a bad record, and for times whose
    unit is not known.
    """
    if not speed > 0:
        raise ValueError(f"speed is {speed}; it must be above 0")
    records = [FieldReader(item, where) for where, item in expand_sessions(read_records(path))]
    headers = {record.names for record in records}
    form = find_form({name for names in headers for name in names})
    agents = next((str(r.raw(FORM_FIELD)) for r in records if FORM_FIELD in r), None)
    rows = [read_row(record, form) for record in records]
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
    times = [moment for row in rows if (moment := row.due_s(scale)) is not None]
    first_s = min(times, default=0.0)
    delay_scale = (unit or TimeUnit.MS).value
    entries = [
        dataclasses.replace(
            row.entry,
            due_s=None if (due_s := row.due_s(scale)) is None else (due_s - first_s) / speed,
            think_s=None if (think_s := row.pause_s(delay_scale)) is None else think_s / speed,
            block_tokens=row.entry.block_tokens or block_tokens,
        )
        for row in kept
    ]
    return Trace(
        entries=tuple(_sessions(kept, entries, has_times=bool(times))),
        form=agents or (None if form is None else form.name),
        time_unit=time_unit,
        duration_s=max(times, default=0.0) - first_s,
        num_left_out=len(rows) - len(kept),
    )


def _block_tokens(rows: Sequence[TraceRow], form: TraceForm | None) -> tuple[int, TraceForm | None]:
    """Tokens per block, and the form, unless the blocks are those of another form."""
    stated = MOONCAKE_BLOCK_TOKENS if form is None else form.block_tokens
    counts = [
        (row.entry.input_tokens, len(row.entry.block_ids))
        for row in rows
        if not row.entry.block_tokens
    ]
    found = fitting_block_tokens(counts, stated)
    if found is None or found == stated:
        return stated, form
    is_of_another = form is not None and found in {other.block_tokens for other in FORMS}
    return found, None if is_of_another else form


def _time_scale(
    rows: Sequence[TraceRow], form: TraceForm | None, unit: TimeUnit | None, path: Path
) -> tuple[float, str | None]:
    """Seconds per unit of the rows' numbers, and the unit's name; None without times."""
    numbers = [row.number for row in rows if row.number is not None]
    dated = next((row for row in rows if row.moment_s is not None), None)
    if not numbers:
        if dated is None:
            return 1.0, None
        return 1.0, "date" if dated.stated_unit is None else dated.stated_unit.label
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


def _sessions(
    rows: Sequence[TraceRow], entries: Sequence[TraceEntry], *, has_times: bool
) -> Iterator[TraceEntry]:
    """The first request of each session with its later turns, in the order of their times."""
    grouped: dict[object, list[tuple[TraceRow, TraceEntry]]] = {}
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
        if later:
            first = dataclasses.replace(first, turns=tuple(entry for _, entry in later))
        starts.append(first)
    yield from sorted(starts, key=lambda entry: entry.due_s or 0.0)

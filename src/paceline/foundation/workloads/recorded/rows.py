"""Read one record of a trace, while the unit of the trace's times is not known yet."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from dataclasses import dataclass

from paceline.foundation.workloads.fields import FieldReader
from paceline.foundation.workloads.prompts import PROMPT_FIELDS, Prompt, read_prompt, read_request
from paceline.foundation.workloads.recorded.entries import TRACE_TASK, TraceEntry
from paceline.foundation.workloads.recorded.forms import FORMS, TimeUnit, TraceForm

_STATED_UNITS = {
    f"{name}_{unit.label}": unit
    for name in ("at", "timestamp", "arrival", "arrival_time")
    for unit in TimeUnit
}
"""Fields of a time that end with their unit."""
_TIME_NAMES = tuple(dict.fromkeys([*_STATED_UNITS, "at", *(form.time for form in FORMS)]))
"""`at` is the date in prompts that a gateway captured."""
_INPUT_NAMES = tuple(
    dict.fromkeys(["input_tokens", "prompt_tokens", *(form.input for form in FORMS)])
)
_OUTPUT_NAMES = tuple(
    dict.fromkeys(["output_tokens", "completion_tokens", *(form.output for form in FORMS)])
)
_SESSION_FIELDS = ("session_id", "delay", "think_s")
_LENGTH_FIELDS = (
    _TIME_NAMES,
    _INPUT_NAMES,
    _OUTPUT_NAMES,
    "hash_ids",
    "block_size",
    "delay",
    "think_s",
)
"""Read in a record of lengths, beside `session_id`; one name of each tuple is enough."""
_TEXT_FIELDS = ("max_tokens", "output_length", "input_length", "hash_ids", "type")
"""Beside a text in AIPerf's form. The text decides its own length and what it shares with others;
`type` names the form."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One record while the unit of the trace's times is not known yet."""

    fields: FieldReader
    entry: TraceEntry
    """Without its time and its pause."""
    session: str | None
    time_name: str | None
    number: float | None
    """Its time as a number in the trace's unit; None for a date, or without a time."""
    moment_s: float | None
    """Its time as a date, or in a field that is in seconds."""
    think_s: float | None
    """From the end of the answer before."""
    delay: float | None
    """The same, in milliseconds or in the unit that the user gave."""

    def due_s(self, scale: float) -> float | None:
        """Its time, if one unit of the trace's numbers has `scale` seconds."""
        return self.moment_s if self.number is None else self.number * scale

    def pause_s(self, scale: float) -> float | None:
        """From the end of the answer before, if one unit of `delay` has `scale` seconds."""
        return self.think_s if self.delay is None else self.delay * scale

    @property
    def stated_unit(self) -> TimeUnit | None:
        """The unit that the name of its time ends with; None for a date or any other name."""
        return _STATED_UNITS.get(self.time_name or "")

    @property
    def is_empty(self) -> bool:
        return self.entry.recorded is None and not (
            self.entry.input_tokens and self.entry.output_tokens
        )


def read_row(fields: FieldReader, form: TraceForm | None) -> TraceRow:
    time_names = _TIME_NAMES if form is None else (*_STATED_UNITS, form.time)
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
    return TraceRow(
        fields=fields,
        entry=_read_entry(fields),
        session=None if session is None else str(session),
        time_name=time_name,
        number=number,
        moment_s=moment_s,
        think_s=think_s,
        delay=delay,
    )


def _read_entry(fields: FieldReader) -> TraceEntry:
    """The request, without its time."""
    prompt = _read_recorded(fields)
    if prompt is not None:
        limit = fields.count("output_length")
        if limit is not None:
            prompt = dataclasses.replace(prompt, max_tokens=limit)
        return TraceEntry(None, recorded=prompt)
    # BurstGPT has a Session ID, which is not read.
    sessions = () if "Session ID" in fields.names else ("session_id",)
    fields.refuse_misspelt((*_LENGTH_FIELDS, *sessions))
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
        block_tokens=fields.count("block_size") or 0,
    )


def _read_recorded(fields: FieldReader) -> Prompt | None:
    """The prompt of a record that holds one; None for lengths. AIPerf calls a text `text_input` or
    `text`, and a whole body `payload`."""
    if "messages" in fields or "prompt" in fields:
        fields.refuse_unknown((*PROMPT_FIELDS, *_TIME_NAMES, *_SESSION_FIELDS, "output_length"))
        return read_prompt(fields, TRACE_TASK)
    for name in ("text_input", "text"):
        if name in fields:
            fields.refuse_unknown((name, *_TEXT_FIELDS, *_TIME_NAMES, *_SESSION_FIELDS))
            message = {"role": "user", "content": fields.word(name)}
            return Prompt(TRACE_TASK, (message,), None, fields.count("max_tokens"))
    if "payload" in fields:
        fields.refuse_misspelt(("payload", *_SESSION_FIELDS, "output_length"))
        body = FieldReader(fields.raw("payload"), f"{fields.where}, payload")
        return read_request(body, TRACE_TASK)
    return None


def _read_time(fields: FieldReader, name: str) -> tuple[float | None, float | None]:
    """A number whose unit the whole trace decides, or seconds from a fixed origin."""
    unit = _STATED_UNITS.get(name)
    if unit is not None:
        return None, (fields.number(name, lowest=0) or 0.0) * unit.value
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
    if isinstance(blocks, str):  # a cell of a table
        with contextlib.suppress(ValueError, RecursionError):
            blocks = json.loads(blocks)
    if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
        raise fields.error(f"hash_ids is {blocks!r}; it must be a list of whole numbers")
    return tuple(blocks)

"""Read a trace from parsed JSON or YAML; every refusal names the place and what is allowed."""

from __future__ import annotations

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.shifting_trace.values import (
    Category,
    Script,
    ShiftingTrace,
    TextSource,
    TokenRange,
    TracePhase,
)
from paceline.foundation.workloads.fields import FieldReader
from paceline.foundation.workloads.registry import workload_names

FORMAT = "paceline shifting trace"
VERSION = 1
_TRACE_FIELDS = ("format", "version", "name", "description", "categories", "phases")
_CATEGORY_FIELDS = ("text", "scripted")
_TEXT_FIELDS = ("workload", "temperature", "max_tokens")
_SCRIPT_FIELDS = ("acceptance", "prompt_tokens", "output_tokens")
_PHASE_FIELDS = ("name", "duration_s", "output_tokens", "load", "mix")
_LOAD_FIELDS = ("concurrency", "rate_per_s")


def parse_trace(document: object, where: str) -> ShiftingTrace:
    """The trace in a parsed file; `where` begins every message.

    Raises `WorkloadError` for another format, another version, unknown fields and wrong values.
    """
    fields = FieldReader(document, where)
    _check_format(fields)
    fields.refuse_unknown(_TRACE_FIELDS)
    name = fields.word("name")
    categories, phases = fields.raw("categories"), fields.items("phases")
    for field, value in (("name", name), ("categories", categories), ("phases", phases)):
        if value is None:
            raise fields.error(f"{field} is missing; a trace needs name, categories and phases")
    if not isinstance(categories, dict) or not categories:
        raise fields.error("categories must be a non-empty object: the name of each, and its text")
    try:
        return ShiftingTrace(
            name=name or "",
            description=fields.text("description") or "",
            categories=tuple(
                _read_category(str(key), FieldReader(item, f"{where}, category {key!r}"))
                for key, item in categories.items()
            ),
            phases=tuple(
                _read_phase(FieldReader(item, f"{where}, phase {number}"))
                for number, item in enumerate(phases or (), start=1)
            ),
        )
    except ValueError as error:
        raise fields.error(str(error)) from error


def _check_format(fields: FieldReader) -> None:
    if fields.raw("format") != FORMAT:
        raise fields.error(f"format is {fields.raw('format')!r}; it must be {FORMAT!r}")
    if fields.raw("version") != VERSION:
        raise fields.error(
            f"version is {fields.raw('version')!r}; this Paceline reads version {VERSION}"
        )


def _read_category(name: str, fields: FieldReader) -> Category:
    fields.refuse_unknown(_CATEGORY_FIELDS)
    text, script = None, None
    if "text" in fields:
        text = _read_text(FieldReader(fields.raw("text"), f"{fields.where}, text"))
    if "scripted" in fields:
        script = _read_script(FieldReader(fields.raw("scripted"), f"{fields.where}, scripted"))
    try:
        return Category(name, text, script)
    except ValueError as error:
        raise fields.error(str(error)) from error


def _read_text(fields: FieldReader) -> TextSource:
    fields.refuse_unknown(_TEXT_FIELDS)
    workload = fields.word("workload")
    if workload not in workload_names():
        raise fields.error(
            f"workload is {workload!r}; it must be one of {', '.join(workload_names())}"
            f"{did_you_mean(workload, workload_names())}"
        )
    return TextSource(
        workload=workload or "",
        temperature=fields.number("temperature", lowest=0),
        max_tokens=fields.count("max_tokens"),
    )


def _read_script(fields: FieldReader) -> Script:
    fields.refuse_unknown(_SCRIPT_FIELDS)
    for name in _SCRIPT_FIELDS:
        if name not in fields:
            raise fields.error(f"{name} is missing; give {', '.join(_SCRIPT_FIELDS)}")
    chances = fields.items("acceptance") or []
    if not all(isinstance(c, int | float) and not isinstance(c, bool) for c in chances):
        raise fields.error(f"acceptance is {chances!r}; it must be a list of numbers")
    try:
        return Script(
            acceptance=tuple(float(chance) for chance in chances),
            prompt_tokens=_read_range(fields, "prompt_tokens"),
            output_tokens=_read_range(fields, "output_tokens"),
        )
    except ValueError as error:
        raise fields.error(str(error)) from error


def _read_range(fields: FieldReader, name: str) -> TokenRange:
    value = fields.raw(name)
    ends = value if isinstance(value, list) else [value, value]
    if len(ends) != 2 or not all(type(end) is int for end in ends):
        raise fields.error(f"{name} is {value!r}; it must be a whole number or [low, high]")
    try:
        return TokenRange(*ends)
    except ValueError as error:
        raise fields.error(f"{name}: {error}") from error


def _read_phase(fields: FieldReader) -> TracePhase:
    fields.refuse_unknown(_PHASE_FIELDS)
    name = fields.word("name")
    if name is None:
        raise fields.error("name is missing; it must be a non-empty string")
    for field in ("load", "mix"):
        if field not in fields:
            raise fields.error(f"{field} is missing; a phase needs name, load, mix and an end")
    load = FieldReader(fields.raw("load"), f"{fields.where}, load")
    load.refuse_unknown(_LOAD_FIELDS)
    try:
        return TracePhase(
            name=name,
            mix=_read_mix(fields),
            concurrency=load.count("concurrency"),
            rate_per_s=load.number("rate_per_s", above=0),
            duration_s=fields.number("duration_s", above=0),
            output_tokens=fields.count("output_tokens"),
        )
    except ValueError as error:
        raise fields.error(str(error)) from error


def _read_mix(fields: FieldReader) -> tuple[tuple[str, float], ...]:
    """A category by its name, or an object from category to weight."""
    value = fields.raw("mix")
    if isinstance(value, str):
        return ((value, 1.0),)
    mix = FieldReader(value, f"{fields.where}, mix")
    return tuple((str(name), mix.number(name, above=0) or 0.0) for name in value)

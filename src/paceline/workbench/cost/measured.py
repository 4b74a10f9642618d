"""Read the rates of a run from the JSON of `paceline bench run`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.workbench.cost.arithmetic import MeasuredRates

_KIND = "paceline bench run"
_SCHEMA_VERSION = 1
_LOAD_KEYS = {
    "workload": "workload",
    "prompts_file": "prompts",
    "temperature": "temperature",
    "concurrency": "concurrency",
    "rate_per_s": "requests per second",
    "max_tokens": "token limit",
}


_SAME_LENGTH = 1.1
"""Factor between the mean answers of two runs of the same requests, at most; rounding of greedy
answers and other samples change them by a few percent."""


class MeasurementUnusable(Exception):
    """A file holds no usable run. The message says why."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run: its rates, how it was loaded, and what speaks against it."""

    file: str
    rates: MeasuredRates
    model: str | None
    load: Mapping[str, object]
    date_utc: str | None
    warnings: tuple[str, ...]


def read_measurement(path: Path) -> Measurement:
    """The run in this file; MeasurementUnusable if there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise MeasurementUnusable(f"{path} is not readable JSON: {error}") from error
    try:
        return parse_measurement(document, path.name)
    except MeasurementUnusable as error:
        raise MeasurementUnusable(f"{path}: {error}") from error


def parse_measurement(document: Any, file: str) -> Measurement:
    """The run in a parsed document."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind != _KIND:
        raise MeasurementUnusable(f"its kind is {kind!r}; it must be the JSON of {_KIND}")
    if document.get("schema_version") != _SCHEMA_VERSION:
        raise MeasurementUnusable(
            f"its schema_version is {document.get('schema_version')!r}; this release reads "
            f"{_SCHEMA_VERSION}"
        )
    summary, config = _part(document, "summary"), _part(document, "config")
    environment = _part(document, "environment") if "environment" in document else {}
    if not (summary.get("output_tokens_per_s") and summary.get("requests_per_s")):
        raise MeasurementUnusable(
            "its output tokens/s are unknown or 0: the server reported no usage, or no request "
            "succeeded"
        )
    return Measurement(
        file=file,
        rates=_rates(summary),
        model=config.get("model"),
        load={name: config.get(key) for key, name in _LOAD_KEYS.items()},
        date_utc=environment.get("date_utc"),
        warnings=tuple(_warnings(document, summary)),
    )


def differences(mine: Measurement, baseline: Measurement) -> list[str]:
    """What differs between two runs besides the server, one sentence each."""
    found = []
    if mine.model != baseline.model:
        found.append(f"the model is {mine.model}, the baseline's is {baseline.model}")
    for name, value in mine.load.items():
        other = baseline.load[name]
        if value != other:
            found.append(f"the {name} is {value}, the baseline's is {other}")
    ours, theirs = (one.rates.output_tokens_per_request for one in (mine, baseline))
    if not 1 / _SAME_LENGTH <= ours / theirs <= _SAME_LENGTH:
        found.append(f"answers have {ours:.3g} tokens, the baseline's have {theirs:.3g}")
    return found


def _warnings(document: Mapping[str, Any], summary: Mapping[str, Any]) -> list[str]:
    """Earlier documents of this version have the verdict in their summary."""
    warnings = []
    if not document.get("valid", summary.get("is_valid", True)):
        notes = document.get("notes")
        if not isinstance(notes, list):
            raise MeasurementUnusable(f"its notes are {notes!r}; they must be a list")
        warnings.append("the run is not valid: " + "; ".join(map(str, notes)))
    num_errors = _count(summary, "num_errors")
    if num_errors:
        warnings.append(f"{num_errors} of {_count(summary, 'num_requests')} requests failed")
    return warnings


def _rates(summary: Mapping[str, Any]) -> MeasuredRates:
    output = _above_0(summary, "output_tokens_per_s")
    prompts, window_s = _count(summary, "prompt_tokens"), _above_0(summary, "window_s")
    requests = _above_0(summary, "requests_per_s")
    try:
        return MeasuredRates(output, output + prompts / window_s, requests)
    except (ValueError, OverflowError) as error:
        raise MeasurementUnusable(f"its rates cannot be used: {error}") from error


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = document.get(name)
    if not isinstance(part, dict):
        raise MeasurementUnusable(
            f"it lacks a part that can be used: {name} is {_shown(document, name)}; it must "
            "be an object"
        )
    return part


def _above_0(summary: Mapping[str, Any], name: str) -> float:
    """A finite number above 0 of the summary."""
    value = summary.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not is_number or not 0 < value <= sys.float_info.max:
        raise MeasurementUnusable(
            f"it lacks a part that can be used: summary.{name} is {_shown(summary, name)}; it "
            "must be a finite number above 0"
        )
    return float(value)


def _count(summary: Mapping[str, Any], name: str) -> int:
    """A whole number of the summary, at least 0."""
    value = summary.get(name)
    if type(value) is not int or value < 0:
        raise MeasurementUnusable(
            f"it lacks a part that can be used: summary.{name} is {_shown(summary, name)}; it "
            "must be a whole number of at least 0"
        )
    return value


def _shown(part: Mapping[str, Any], name: str) -> str:
    return repr(part[name]) if name in part else "missing"

"""Read the rates of a run from the JSON of `paceline bench run`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.cost.arithmetic import MeasuredRates

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
        document = json.loads(path.read_text(encoding="utf-8"))
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
    try:
        summary, config = document["summary"], document["config"]
        output, requests = summary["output_tokens_per_s"], summary["requests_per_s"]
        if output is None or not output or not requests:
            raise MeasurementUnusable(
                "its output tokens/s are unknown or 0: the server reported no usage, or no request "
                "succeeded"
            )
        rates = MeasuredRates(
            output_tokens_per_s=output,
            total_tokens_per_s=output + summary["prompt_tokens"] / summary["window_s"],
            requests_per_s=requests,
        )
        return Measurement(
            file=file,
            rates=rates,
            model=config.get("model"),
            load={name: config.get(key) for key, name in _LOAD_KEYS.items()},
            date_utc=document.get("environment", {}).get("date_utc"),
            warnings=tuple(_warnings(document)),
        )
    except (KeyError, TypeError) as error:
        raise MeasurementUnusable(
            f"it lacks a part of a {_KIND} document ({type(error).__name__}: {error})"
        ) from error


def differences(mine: Measurement, baseline: Measurement) -> list[str]:
    """What differs between two runs besides the server, one sentence each."""
    found = []
    if mine.model != baseline.model:
        found.append(f"the model is {mine.model}, the baseline's is {baseline.model}")
    for name, value in mine.load.items():
        other = baseline.load[name]
        if value != other:
            found.append(f"the {name} is {value}, the baseline's is {other}")
    return found


def _warnings(document: Mapping[str, Any]) -> list[str]:
    """Earlier documents of this version have the verdict in their summary."""
    summary = document["summary"]
    warnings = []
    if not document.get("valid", summary.get("is_valid", True)):
        warnings.append("the run is not valid: " + "; ".join(document["notes"]))
    if summary["num_errors"]:
        warnings.append(f"{summary['num_errors']} of {summary['num_requests']} requests failed")
    return warnings

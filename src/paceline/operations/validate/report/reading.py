"""Read a report: for `--verify`, `--resume` and `--previous`.

A key that occurs twice is refused: parsers differ in which value they take, and a signature would
cover only one of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from paceline.operations.validate.report.document import KIND, SCHEMA_VERSION, ValidationDocument


class ReportUnreadable(Exception):
    """A file is no report that this release reads. The message says why."""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a report, with its kind and version checked. Raises `ReportUnreadable`."""
    try:
        values = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique)
    except OSError as error:
        raise ReportUnreadable(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportUnreadable(f"{path} is not readable JSON: {error}") from error
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind != KIND:
        raise ReportUnreadable(f"{path} has kind {kind!r}; it must be the JSON of {KIND}")
    if values.get("schema_version") != SCHEMA_VERSION:
        raise ReportUnreadable(
            f"{path} has schema_version {values.get('schema_version')!r}; this release reads "
            f"{SCHEMA_VERSION}"
        )
    assert isinstance(values, dict)
    return values


def read_report(path: Path) -> ValidationDocument:
    """The document of a report. Raises `ReportUnreadable`."""
    return to_document(read_json(path), path)


def to_document(values: dict[str, Any], path: Path) -> ValidationDocument:
    """The document of JSON values that `path` holds. Raises `ReportUnreadable`."""
    try:
        return msgspec.convert(values, ValidationDocument)
    except msgspec.ValidationError as error:
        raise ReportUnreadable(f"{path} does not fit the schema: {error}") from error


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:100]!r} occurs twice")
        found[name] = value
    return found

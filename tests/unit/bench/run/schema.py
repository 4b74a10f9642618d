"""Validate a report by the published JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

SCHEMA = Path(__file__).parents[4] / "docs" / "bench-run.schema.json"


def validate(document: object) -> None:
    """Raises jsonschema.ValidationError."""
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)

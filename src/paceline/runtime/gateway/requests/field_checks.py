"""`Check`: the values that a field may have, as a predicate, a message and a JSON schema.

The functions here make one check per kind of value. The published description of the routes is
rendered from the schemas; what a schema cannot express (bytes of a nested value) is in its
description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

INT32_MAX = 2**31 - 1
MAX_SCHEMA_BYTES = 64 * 1024
"""Of what becomes one grammar. Chosen empirically: the engine compiles it in a time that grows with
its size."""


@dataclass(frozen=True, slots=True)
class Check:
    """The allowed values of one field. `None` (null) is always allowed and never passed in."""

    is_fine: Callable[[object], bool]
    allowed: str
    """Completes the message "<name> must be …"."""
    schema: Mapping[str, object]
    """The same rule as a JSON schema, as exactly as a schema can express it."""

    def __call__(self, value: object) -> str | None:
        """None when the value is allowed, else a description of the allowed values."""
        return None if self.is_fine(value) else self.allowed


def described(schema: Mapping[str, object]) -> Check:
    """A check that accepts anything, for a field that `prompts` checks."""
    return Check(lambda value: True, "anything", schema)


def whole_number(value: object) -> int | None:
    """The integer that this is in JSON, where 8.0 and 8 are the same number; None for others.

    >>> whole_number(8.0), whole_number(8), whole_number(8.5), whole_number(True)
    (8, 8, None, None)
    """
    if type(value) is int:
        return value
    return int(value) if type(value) is float and value.is_integer() else None


def with_whole_numbers(value: object) -> object:
    """The value, or a list of values, with integers in place of floats such as 8.0."""
    if type(value) is list and float in set(map(type, value)):
        return [with_whole_numbers(item) if type(item) is float else item for item in value]
    whole = whole_number(value)
    return value if whole is None else whole


def integer(low: int, high: int) -> Check:
    return Check(
        lambda value: (number := whole_number(value)) is not None and low <= number <= high,
        f"an integer from {low} to {high}",
        {"type": "integer", "minimum": low, "maximum": high},
    )


def number(low: float, high: float) -> Check:
    return Check(
        lambda value: type(value) in (int, float) and low <= value <= high,  # type: ignore[operator]
        f"a number from {low:g} to {high:g}",
        {"type": "number", "minimum": low, "maximum": high},
    )


def text(max_chars: int) -> Check:
    return Check(
        lambda value: isinstance(value, str) and len(value) <= max_chars,
        f"a string of at most {max_chars} characters",
        {"type": "string", "maxLength": max_chars},
    )


def one_of(*values: str) -> Check:
    return Check(
        lambda value: isinstance(value, str) and value in values,
        " or ".join(values),
        {"type": "string", "enum": list(values)},
    )


def texts(max_items: int, max_chars: int) -> Check:
    def is_fine(value: object) -> bool:
        return (
            isinstance(value, list)
            and len(value) <= max_items
            and all(isinstance(item, str) and 0 < len(item) <= max_chars for item in value)
        )

    return Check(
        is_fine,
        f"a list of at most {max_items} strings of 1 to {max_chars} characters",
        {
            "type": "array",
            "maxItems": max_items,
            "items": {"type": "string", "minLength": 1, "maxLength": max_chars},
        },
    )


def token_ids(max_items: int) -> Check:
    def is_fine(value: object) -> bool:
        return (
            isinstance(value, list)
            and len(value) <= max_items
            and all(
                (token := whole_number(item)) is not None and 0 <= token <= INT32_MAX
                for item in value
            )
        )

    return Check(
        is_fine,
        f"a list of at most {max_items} token ids",
        {
            "type": "array",
            "maxItems": max_items,
            "items": {"type": "integer", "minimum": 0, "maximum": INT32_MAX},
        },
    )


def mapping(max_entries: int) -> Check:
    return Check(
        lambda value: isinstance(value, dict) and len(value) <= max_entries,
        f"an object with at most {max_entries} entries",
        {"type": "object", "maxProperties": max_entries},
    )


def _is_schema(value: object) -> bool:
    return isinstance(value, dict) and len(msgspec.json.encode(value)) <= MAX_SCHEMA_BYTES


boolean = Check(lambda value: isinstance(value, bool), "true or false", {"type": "boolean"})

never = Check(lambda value: value is False, "false", {"type": "boolean", "enum": [False]})

schema = Check(
    _is_schema,
    f"an object of at most {MAX_SCHEMA_BYTES} bytes",
    {"type": "object", "description": f"At most {MAX_SCHEMA_BYTES} bytes."},
)

_STOP_TEXTS = texts(16, 512)
stop = Check(
    lambda value: _STOP_TEXTS.is_fine(value) or (isinstance(value, str) and 0 < len(value) <= 512),
    "a string or a list of at most 16 strings, each of 1 to 512 characters",
    {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 512}, _STOP_TEXTS.schema]},
)

_TOOL_CHOICES = ("none", "auto", "required")
tool_choice = Check(
    lambda value: (isinstance(value, str) and value in _TOOL_CHOICES) or isinstance(value, dict),
    "none, auto, required, or an object",
    {"anyOf": [{"type": "string", "enum": list(_TOOL_CHOICES)}, {"type": "object"}]},
)

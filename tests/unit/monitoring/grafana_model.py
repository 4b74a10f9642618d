"""Read a dashboard with the types that Grafana publishes (grafana-foundation-sdk), and compare.

The SDK is generated from the schemas of Grafana's core and of its panels. It ignores fields that it
does not know and does not check enumerations, so both are checked here.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()


def find_misfits(document: dict[str, Any]) -> list[str]:
    """Fields that Grafana does not have, and values that their enumerations do not have."""
    read = Dashboard.from_json(document)
    again = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*_lost(document, again, ""), *_not_enumerated(read, "")]


def _lost(given: Any, read: Any, path: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            if key in read:
                yield from _lost(value, read[key], f"{path}.{key}")
            elif value is not None:
                yield f"{path}.{key}"
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for index, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
    elif given != read:
        yield path


def _not_enumerated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_enumerated(item, f"{path}[{index}]")
    elif hasattr(value, "to_json"):
        for name, hint in typing.get_type_hints(type(value)).items():
            field = getattr(value, name, None)
            enums = [kind for kind in _types_of(hint) if issubclass(kind, Enum)]
            is_plain = isinstance(field, (str, int)) and not isinstance(field, Enum)
            if enums and is_plain and not any(field in list(kind) for kind in enums):
                yield f"{path}.{name}"
            yield from _not_enumerated(field, f"{path}.{name}")


def _types_of(hint: Any) -> list[type]:
    """The classes in a type hint such as `Optional[X]`."""
    parts = typing.get_args(hint)
    if parts:
        return [kind for part in parts for kind in _types_of(part)]
    return [hint] if isinstance(hint, type) else []

"""A small trace as a document, for tests that change one thing about it."""

from __future__ import annotations

import copy
from typing import Any

_DOCUMENT: dict[str, Any] = {
    "format": "paceline shifting trace",
    "version": 1,
    "name": "small",
    "description": "Two kinds.",
    "categories": {
        "easy": {
            "text": {"workload": "predictable"},
            "scripted": {"acceptance": [0.9], "prompt_tokens": 16, "output_tokens": [10, 20]},
        },
        "hard": {
            "text": {"workload": "code", "temperature": 1, "max_tokens": 32},
            "scripted": {"acceptance": [0.2, 0.1], "prompt_tokens": 16, "output_tokens": 12},
        },
    },
    "phases": [
        {"name": "a", "duration_s": 10, "load": {"concurrency": 4}, "mix": "easy"},
        {"name": "b", "duration_s": 5, "load": {"rate_per_s": 2}, "mix": {"easy": 1, "hard": 3}},
        {"name": "c", "output_tokens": 500, "load": {"concurrency": 2}, "mix": "hard"},
    ],
}


def document(*path: str | int, value: Any = None) -> dict[str, Any]:
    """The document; with a path, with `value` there (None takes the key away)."""
    changed = copy.deepcopy(_DOCUMENT)
    node: Any = changed
    for key in path[:-1]:
        node = node[key]
    if path and value is None:
        del node[path[-1]]
    elif path:
        node[path[-1]] = value
    return changed

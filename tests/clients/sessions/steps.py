"""The prompts, schemas and runner that the Python sessions share.

A session is a script `NAME.py BASE_URL MODEL STEP…`. Each step is a function without arguments that
returns its result. The script prints all results as one JSON object, which the test compares.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping

BASE_URL, MODEL = sys.argv[1:3]
API_KEY = os.environ["SESSION_API_KEY"]

QUESTION = "Say hello."
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
ERRORS = {
    "bad key": (MODEL, QUESTION, {}),
    "bad field": (MODEL, QUESTION, {"top_p": 7}),
    "bad model": ("absent", QUESTION, {}),
    "too long": (MODEL, "error 400", {}),
    "full": (MODEL, "error 429", {}),
    "fault": (MODEL, "error 500", {}),
    "down": (MODEL, "error 503", {}),
}
"""Model, prompt and parameters of the requests that must fail."""


def key_for(error: str) -> str:
    return "wrong" if error == "bad key" else API_KEY


def run(steps: Mapping[str, Callable[[], object]]) -> None:
    print(json.dumps({name: steps[name]() for name in sys.argv[3:]}))


def describe(error: Exception) -> list[object]:
    """Return the class, the HTTP status, and the gateway's error code if the client exposes it."""
    return [
        type(error).__name__,
        getattr(error, "status_code", None),
        getattr(error, "code", None),
    ]

"""The prompts, schemas and runner that the Python sessions share.

A session is a script `NAME.py BASE_URL MODEL STEP…`. Each step is a function or coroutine function
without arguments that returns its result. The script prints all results as one JSON object, which
the test compares.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Literal

BASE_URL, MODEL = sys.argv[1:3]
API_KEY = os.environ["SESSION_API_KEY"]

QUESTION = os.environ["SESSION_QUESTION"]
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
            "properties": {"city": {"type": "string", "enum": ["Zürich", "Genève"]}},
            "required": ["city"],
        },
    },
}
NAMED_TOOL = {"type": "function", "function": {"name": "get_weather"}}
"""The tool choice that forces the tool, in the format of `/v1/chat/completions`."""
ERRORS = {
    name: (model or MODEL, prompt, extra)
    for name, (model, prompt, extra) in json.loads(os.environ["SESSION_ERRORS"]).items()
}
"""Model, prompt and parameters of the requests that must fail."""


def get_weather(city: Literal["Zürich", "Genève"]) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    assert city
    return "rain"


def key_for(error: str) -> str:
    return "wrong" if error == "bad key" else API_KEY


def run(steps: Mapping[str, Callable[[], object]]) -> None:
    """Run the steps that the command names; coroutine functions in one event loop."""
    names = sys.argv[3:]
    if any(map(inspect.iscoroutinefunction, steps.values())):
        results = asyncio.run(_await_all(steps, names))
    else:
        results = {name: steps[name]() for name in names}
    print(json.dumps(results))


async def _await_all(
    steps: Mapping[str, Callable[[], object]], names: list[str]
) -> dict[str, object]:
    return {name: await steps[name]() for name in names}


def describe(error: Exception) -> list[object]:
    """Return the class, the HTTP status, and the gateway's error code if the client exposes it."""
    return [
        type(error).__name__,
        getattr(error, "status_code", None),
        getattr(error, "code", None),
    ]

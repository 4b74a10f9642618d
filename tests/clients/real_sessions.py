"""What a session must give on a real engine, whatever its model answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clients.real_clients import QUESTION, Client, Failing

STEPS = ("plain", "stream", "usage", "json_schema", "errors", "cancel")
"""All but tools, which the bundled pair cannot call, and a stream that the engine breaks."""

FAILING: Failing = {
    "bad field": (None, QUESTION, {"top_p": 7}),
    "bad model": ("absent", QUESTION, {}),
    "too long": (None, "word " * 3000, {}),
}
"""The bundled pair takes at most 2048 tokens."""

_MAX_TOKENS = 24
"""Of the steps `plain`, `stream` and `usage`."""


def find_faults(client: Client, results: Mapping[str, Any], failing: Failing) -> list[str]:
    """Each result that is wrong; a greedy stream must give the text of the whole answer."""
    text, reason = results["plain"]
    streamed, stream_reason, _ = results["stream"]
    whole_usage, stream_usage, is_sent_once = results["usage"]
    person = results["json_schema"]
    ends = ("stop", "length")
    checks = {
        "plain": bool(text) and reason in (ends if client.shows_finish_reason else (None,)),
        "stream": streamed == text
        and stream_reason in (ends if client.shows_finish_reason_of_streams else (None,)),
        "finish reasons": reason == stream_reason or None in (reason, stream_reason),
        "usage": whole_usage == stream_usage
        and is_sent_once
        and 1 <= whole_usage[1] <= _MAX_TOKENS,
        "json_schema": set(person) == {"name", "age"}
        and len(person["name"]) <= 8
        and 0 <= person["age"] <= 99,
        "errors": results["errors"] == {name: client.errors[name] for name in failing},
        "cancel": results["cancel"] == "cancelled",
    }
    return [f"{name}: {results.get(name)}" for name, is_right in checks.items() if not is_right]

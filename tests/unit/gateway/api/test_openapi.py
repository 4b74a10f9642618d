"""The published description matches the checks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from paceline.runtime.gateway.api.openapi import render_openapi, render_yaml
from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests.routes import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    RESPONSES,
    ROUTES,
    Route,
)
from paceline.runtime.gateway.requests.validation import check_request
from unit.gateway.conftest import SETTINGS

DOCS = Path(__file__).parents[4] / "docs"
PROBES: list[object] = [
    -(2**63) - 1, -(2**63), -2.5, -2, -1, -0.5, 0, 0.005, 1, 1.5, 2, 8, 20, 21, 100, 101, 1000,
    1001, 10_001, 2**31 - 1, 2**31, 2**63 - 1, 2**63, True, False, "", "x", "auto", "none", "float",
    "x" * 10, "x" * 101, "x" * 1001, [], [""], ["x"], ["x" * 513], [1], [-1], [2**31], [1.5], [{}],
    [{"type": "function"}], [{"type": "mcp"}], [{"type": "custom"}], ["x"] * 17, ["x"] * 257, {},
    {"type": "text"}, 8.0, -1.0, {str(n): n for n in range(9)}, {str(n): n for n in range(65)},
]  # fmt: skip
SCHEMAS: Mapping[str, Any] = render_openapi()["components"]["schemas"]  # type: ignore[index]
NAMES = {
    CHAT.path: "ChatCompletions",
    COMPLETIONS.path: "Completions",
    EMBEDDINGS.path: "Embeddings",
    RESPONSES.path: "Responses",
}
WHOLE = ("messages", "prompt", "input", "instructions", "tools")
"""Fields whose check needs the rest of the body."""
FIELDS = [(route, name) for route in ROUTES for name in route.fields if name not in WHOLE]


def test_the_committed_copy_is_current() -> None:
    """To update it: `python -m paceline.runtime.gateway.api.openapi > docs/openapi.yaml`."""
    assert (DOCS / "openapi.yaml").read_text() == render_yaml()


@pytest.mark.parametrize(
    ("route", "name"), FIELDS, ids=lambda part: str(getattr(part, "path", part))
)
def test_a_field_accepts_what_its_schema_accepts(route: Route, name: str) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMAS[NAMES[route.path]]["properties"][name])
    by_schema = [(probe, validator.is_valid(probe)) for probe in PROBES]
    assert by_schema == [(probe, route.fields[name](probe) is None) for probe in PROBES]


PROMPTS: list[object] = [
    "x", "", 1, None, {}, [], ["x"], [1], [-1], [2**31], [[1], [2]], [["x"]], [[1], []],
    ["x"] * 2048, ["x"] * 2049,
    *[[item] for item in (
        {"role": "user"}, {"role": 1}, {"role": "user", "content": None}, {"type": "message"},
        {"role": "user", "content": 5}, {"type": "computer_call"}, {"type": "reasoning"},
    )],
    *[[{"role": "user", "content": [part]}] for part in (
        {"type": "text", "text": "x"}, {"type": "image_url"}, {"type": "input_text"}, {}, "x",
        {"type": "tool_reference", "name": "a"},
        {"type": "text", "text": "x", "uuid": "1", "image_url": "http://10.0.0.1"},
    )],
]  # fmt: skip


@pytest.mark.parametrize(("route", "prompt"), list(itertools.product(ROUTES, PROMPTS)))
def test_a_body_is_accepted_if_its_schema_accepts_it(route: Route, prompt: object) -> None:
    body: dict[str, object] = {"model": "m", route.prompt_param: prompt}
    schema = {**SCHEMAS[NAMES[route.path]], "components": {"schemas": SCHEMAS}}
    assert jsonschema.Draft202012Validator(schema).is_valid(body) is _passes(route, body)


def _passes(route: Route, body: dict[str, object]) -> bool:
    try:
        check_request(route, json.dumps(body).encode(), SETTINGS)
    except Refusal:
        return False
    return True

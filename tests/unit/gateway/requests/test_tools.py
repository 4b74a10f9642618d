"""Tools: which kinds a request may declare, and which schemas have a limit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests.field_checks import MAX_SCHEMA_BYTES
from paceline.runtime.gateway.requests.routes import CHAT, RESPONSES, Route
from paceline.runtime.gateway.requests.validation import check_request
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL


def sized_parameters(num_bytes: int) -> dict[str, object]:
    """A schema of this many bytes."""
    schema: dict[str, object] = {"type": "object", "title": ""}
    schema["title"] = "x" * (num_bytes - len(json.dumps(schema, separators=(",", ":"))))
    return schema


def function(name: str, num_bytes: int = 100, **more: object) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": sized_parameters(num_bytes), **more}


def chat_function(name: str, num_bytes: int = 100, **more: object) -> dict[str, Any]:
    inner = {"name": name, "parameters": sized_parameters(num_bytes), **more}
    return {"type": "function", "function": inner}


def check(route: Route, tools: object, **more: object) -> None:
    """Check a request with these tools; raises `Refusal`."""
    body = {"tools": tools, **more}
    whole = chat(**body) if route is CHAT else {"model": MODEL, "input": "x", **body}
    check_request(route, json.dumps(whole).encode(), SETTINGS)


def refused(route: Route, tools: object, **more: object) -> tuple[str | None, str]:
    """The field and the message of the refusal."""
    with pytest.raises(Refusal) as caught:
        check(route, tools, **more)
    problem = caught.value.problem
    assert problem.status == 400
    return problem.param, problem.message


LARGE = MAX_SCHEMA_BYTES * 3 // 4
"""Two such schemas together exceed the limit."""


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "local_shell"},
        {"type": "shell"},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client", "parameters": {}},
        {"type": "image_generation", "output_format": "png"},
        {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
        {"type": "web_search_2025_08_26"},
        {"type": "computer_use_preview", "display_width": 800, "display_height": 600},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "definition": "x"}},
        {"type": "namespace", "name": "empty", "tools": []},
    ],
)
def test_a_tool_that_no_server_here_runs_may_be_declared(tool: dict[str, object]) -> None:
    check(RESPONSES, [function("read"), tool])


@pytest.mark.parametrize(
    ("tool", "what"),
    [
        ({"type": "mcp", "server_url": "http://10.0.0.1"}, "open addresses"),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, "run code"),
        ({"type": "container"}, "run code"),
        ({"type": "web_search_preview"}, "open addresses"),
        ({"type": "file_search", "vector_store_ids": ["vs_1"]}, "OpenAI stores"),
        ({"type": "new_kind"}, "got 'new_kind'"),
    ],
)
def test_a_tool_that_a_server_may_run_is_refused_by_name(
    tool: dict[str, object], what: str
) -> None:
    param, message = refused(RESPONSES, [function("read"), tool])
    assert param == "tools[1].type"
    assert what in message
    assert "server.granted_fields" in message


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([{"type": "namespace", "name": "a", "tools": [{"type": "mcp"}]}],
         "tools[0].tools[0].type"),
        ([{"type": "namespace", "name": "a", "tools": [{"type": "namespace"}]}],
         "tools[0].tools[0].type"),
        ([{"type": "namespace", "name": "a"}], "tools[0].tools"),
        ([function("a"), "b"], "tools[1]"),
        ([{"type": 5}], "tools[0].type"),
        ({}, "tools"),
    ],
)  # fmt: skip
def test_the_refusal_names_the_tool_and_the_field(tools: object, param: str) -> None:
    assert refused(RESPONSES, tools)[0] == param


def test_an_operator_may_grant_all_tools() -> None:
    body = {"model": MODEL, "input": "x", "tools": [{"type": "mcp", "server_label": "a"}]}
    granted = replace(SETTINGS, granted_fields=frozenset({"tools"}))
    check_request(RESPONSES, json.dumps(body).encode(), granted)


@pytest.mark.parametrize(
    ("route", "make"), [(CHAT, chat_function), (RESPONSES, function)], ids=["chat", "responses"]
)
class TestGrammars:
    """A schema has a limit where the engine compiles it, and nowhere else."""

    @pytest.mark.parametrize(
        "choice", ["auto", "none", None, {"type": "allowed_tools", "mode": "auto", "tools": []}]
    )
    def test_schemas_that_are_not_compiled_have_no_limit(
        self, route: Route, make: Any, choice: object
    ) -> None:
        check(route, [make(f"f{n}", 800) for n in range(110)], tool_choice=choice)

    def test_a_required_call_compiles_all_functions(self, route: Route, make: Any) -> None:
        tools = [make("small"), make("large", LARGE + 10), make("other", LARGE)]
        param, message = refused(route, tools, tool_choice="required")
        assert param is not None
        assert param.startswith("tools[1].")
        assert param.endswith("parameters")
        assert "'large'" in message
        assert str(100 + 2 * LARGE + 10) in message
        check(route, tools[:2], tool_choice="required")

    def test_a_forced_call_compiles_one_function(self, route: Route, make: Any) -> None:
        tools = [make("a", LARGE), make("b", LARGE // 2)]
        name: dict[str, object] = {"name": "b"}
        choice = {"type": "function", **({"function": name} if route is CHAT else name)}
        check(route, tools, tool_choice=choice)
        too_large = [make("a"), make("b", MAX_SCHEMA_BYTES + 1)]
        param, _ = refused(route, too_large, tool_choice=choice)
        assert param is not None
        assert param.startswith("tools[1]")

    def test_a_strict_function_is_compiled_without_a_forced_call(
        self, route: Route, make: Any
    ) -> None:
        strict = [make("a", LARGE, strict=True), make("b", LARGE, strict=True)]
        assert refused(route, strict)[0] is not None
        check(route, [strict[0], make("b", LARGE, strict=False)])
        check(route, strict, tool_choice="none")

    @pytest.mark.parametrize("strict", [1, 0, 1.0, "true", "no", [], {}])
    def test_strict_is_a_boolean(self, route: Route, make: Any, strict: object) -> None:
        param, message = refused(route, [make("a"), make("b", strict=strict)])
        where = "tools[1].function" if route is CHAT else "tools[1]"
        assert param == f"{where}.strict"
        assert "must be true, false or null" in message
        check(route, [make("a", strict=None)])

    def test_a_named_list_of_allowed_tools_forces_no_function(
        self, route: Route, make: Any
    ) -> None:
        strict = [make("a", MAX_SCHEMA_BYTES + 1, strict=True), make("b")]
        choice = {"type": "allowed_tools", "mode": "auto", "tools": [], "name": "b"}
        assert refused(route, strict, tool_choice=choice)[0] is not None


@pytest.mark.parametrize("more", [{"strict": True}, {}])
def test_responses_have_no_level_for_a_function(more: dict[str, object]) -> None:
    huge = function("huge", MAX_SCHEMA_BYTES + 1, function={"name": "x", "parameters": {}}, **more)
    choice = "auto" if more else "required"
    assert refused(RESPONSES, [huge], tool_choice=choice)[0] == "tools[0].parameters"


def test_a_choice_of_responses_is_read_without_a_level() -> None:
    huge = function("huge", MAX_SCHEMA_BYTES + 1)
    choice = {"type": "function", "name": "huge", "function": {"name": "x"}}
    assert refused(RESPONSES, [huge], tool_choice=choice)[0] == "tools[0].parameters"


def test_a_chat_reads_the_level_alone() -> None:
    huge = chat_function("huge", MAX_SCHEMA_BYTES + 1) | {"name": "x", "parameters": {}}
    choice = {"type": "function", "name": "x", "function": {"name": "huge"}}
    for tool_choice in ("required", choice):
        param, _ = refused(CHAT, [huge], tool_choice=tool_choice)
        assert param == "tools[0].function.parameters"


def test_a_function_of_a_namespace_counts_by_both_of_its_names() -> None:
    space = {"type": "namespace", "name": "notes", "tools": [function("add", 70_000)]}
    for name in ("add", "notes__add"):
        param, _ = refused(
            RESPONSES, [function("b"), space], tool_choice={"type": "function", "name": name}
        )
        assert param == "tools[1].tools[0].parameters"
    check(RESPONSES, [function("b"), space], tool_choice={"type": "function", "name": "b"})

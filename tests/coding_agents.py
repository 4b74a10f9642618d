"""Requests in the shapes that coding agents send, and what a model answers them with.

Codex: the first three turns over /v1/responses after the public source of its command line, with
tools of its own beside web_search, an MCP server as a namespace, and the history with reasoning,
calls and their results. Codex sends items back without the ids that the server gave them.

An agent of many MCP servers: tools with nested schemas, as long as those of public servers.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def function(name: str, *parameters: str, **more: object) -> Json:
    properties = {one: {"type": "string", "description": f"The {one}."} for one in parameters}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(parameters),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": f"Does {name}. " * 40,
        "strict": False,
        "parameters": schema,
        **more,
    }


def message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CODEX_TOOLS = [
    function("exec_command", "cmd", "workdir"),
    function("write_stdin", "session_id", "chars"),
    function("update_plan", "explanation"),
    {"type": "custom", "name": "apply_patch", "description": "Edit files.",
     "format": {"type": "text"}},
    {"type": "web_search", "external_web_access": True},
    {"type": "tool_search", "execution": "client", "description": "Find tools.",
     "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
    {"type": "image_generation", "output_format": "png"},
    {"type": "namespace", "name": "mcp__notes", "description": "Notes.",
     "tools": [function("search", "query"), function("append", "id", "text")]},
]  # fmt: skip
FIRST = [
    message("developer", "<permissions>read only</permissions>"),
    message("user", "<environment_context><cwd>/repo</cwd></environment_context>"),
    message("user", "Fix the failing test."),
]
FIRST_ANSWER = [
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Look."}],
     "encrypted_content": None},
    message("assistant", "I look at the tests first."),
    {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"pytest -q"}',
     "call_id": "call_1"},
]  # fmt: skip
SECOND = [
    *FIRST,
    *FIRST_ANSWER,
    {"type": "function_call_output", "call_id": "call_1", "output": "1 failed"},
]
SECOND_ANSWER = [
    {"type": "function_call", "namespace": "mcp__notes", "name": "search",
     "arguments": '{"query":"flaky"}', "call_id": "call_2"},
    {"type": "custom_tool_call", "status": "completed", "call_id": "call_3", "name": "apply_patch",
     "input": "*** Begin Patch\n*** End Patch"},
]  # fmt: skip
THIRD = [
    *SECOND,
    *SECOND_ANSWER,
    {"type": "function_call_output", "call_id": "call_2",
     "output": [{"type": "input_text", "text": "none"}]},
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Done"},
]  # fmt: skip
THIRD_ANSWER = [message("assistant", "The test passes.")]
CODEX_TURNS = {"first": FIRST, "second": SECOND, "third": THIRD}


def codex_request(conversation: list[Json], model: str, **more: object) -> Json:
    return {
        "model": model,
        "instructions": "You are a coding agent. " * 500,
        "input": conversation,
        "tools": CODEX_TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning": {"effort": "medium", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0199a5",
        "text": {"verbosity": "low"},
        "client_metadata": {"x-installation-id": "1b4e"},
        **more,
    }


def mcp_functions(num: int = 24) -> list[Json]:
    """The functions of MCP servers, 100 KB: references, alternatives, enums, long texts."""
    return [
        {
            "type": "function",
            "name": f"mcp__tracker__operation_{number}",
            "description": f"Operation {number} of the tracker. " + "Use it with care. " * 60,
            "parameters": _nested_schema(),
        }
        for number in range(num)
    ]


def _nested_schema() -> Json:
    states = ["open", "in progress", "blocked", "in review", "done", "won't do", "⏸ paused"]
    comparison = {
        "type": "object",
        "properties": {
            "field": {"enum": ["state", "assignee", "label", "created_at", None]},
            "operator": {"const": "equals"},
            "value": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        },
        "required": ["field", "operator", "value"],
    }
    both = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}},
    }
    texts = {
        f"option_{index}": {
            "type": ["string", "null"],
            "description": f"Option {index}: " + "what it does, and when to leave it out. " * 4,
            "default": None,
        }
        for index in range(8)
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "Comparison": comparison,
            "Filter": {"anyOf": [{"$ref": "#/$defs/Comparison"}, both]},
            "State": {"type": "string", "enum": states},
        },
        "type": "object",
        "properties": {
            "filter": {"$ref": "#/$defs/Filter"},
            "states": {"type": "array", "items": {"$ref": "#/$defs/State"}, "uniqueItems": True},
            "page": {"type": "integer", "minimum": 1, "maximum": 2**53 - 1},
            "threshold": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e3},
            **texts,
        },
        "required": ["filter"],
        "additionalProperties": False,
    }


def as_chat_tool(tool: Json) -> Json:
    """A function of /v1/responses as a tool of /v1/chat/completions."""
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}

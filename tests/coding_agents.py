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

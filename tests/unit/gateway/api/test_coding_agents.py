"""The first turns of a coding agent over /v1/responses, in the shapes that such agents send.

The requests follow the public source of an agent: tools of its own beside web_search, MCP servers
as namespaces, the history with reasoning, calls and their results.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from unit.gateway.conftest import Served
from unit.gateway.fake_engine import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/responses"


def function(name: str, *parameters: str, **more: object) -> dict[str, Any]:
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


def message(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


TOOLS = [
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
SECOND = [
    *FIRST,
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Look."}],
     "encrypted_content": None},
    message("assistant", "I look at the tests first."),
    {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"pytest -q"}',
     "call_id": "call_1"},
    {"type": "function_call_output", "call_id": "call_1", "output": "1 failed"},
]  # fmt: skip
THIRD = [
    *SECOND,
    {"type": "function_call", "namespace": "mcp__notes", "name": "search",
     "arguments": '{"query":"flaky"}', "call_id": "call_2"},
    {"type": "function_call_output", "call_id": "call_2",
     "output": [{"type": "input_text", "text": "none"}]},
    {"type": "custom_tool_call", "status": "completed", "call_id": "call_3", "name": "apply_patch",
     "input": "*** Begin Patch\n*** End Patch"},
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Done"},
]  # fmt: skip


def request(conversation: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    return {
        "model": MODEL,
        "instructions": "You are a coding agent. " * 500,
        "input": conversation,
        "tools": TOOLS,
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


@pytest.mark.parametrize("conversation", [FIRST, SECOND, THIRD], ids=["first", "second", "third"])
async def test_each_turn_is_streamed_and_reaches_the_engine_unchanged(
    served: Served, conversation: list[dict[str, Any]]
) -> None:
    body = json.dumps(request(conversation)).encode()
    answer = await served.http.post(
        PATH, content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    assert "event: response.completed" in answer.text
    assert served.engine.bodies == [body]


async def test_the_tools_of_many_mcp_servers_have_no_limit_but_the_body(served: Served) -> None:
    """100 functions of 20 servers, some 75 KB: each has a long description."""
    servers = [
        {"type": "namespace", "name": f"mcp__{n}", "description": "A server.",
         "tools": [function(f"tool_{k}", "a") for k in range(5)]}
        for n in range(20)
    ]  # fmt: skip
    body = request(FIRST, tools=servers)
    assert len(json.dumps(servers)) > 70_000
    assert (await served.http.post(PATH, json=body)).status_code == 200
    body = request(FIRST, tools=[*servers, {"type": "mcp", "server_url": "http://10.0.0.1"}])
    answer = await served.http.post(PATH, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[20].type"

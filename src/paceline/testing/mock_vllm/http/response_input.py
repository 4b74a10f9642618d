"""Read the items of a request to /v1/responses as the messages of a chat, as vLLM 0.32 does.

An assistant's turn may have several items (reasoning, a text, calls). vLLM joins them to one
message (`construct_chat_messages_with_tool_call` in entrypoints/openai/responses/utils.py). The
mock model reads the text of that message: like the template of the bundled pair, its chat template
has no calls and no reasoning. Only the type of an item is checked, not each of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.testing.mock_vllm.http.refusals import invalid

Message = dict[str, Any]

_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def chat_messages(items: Sequence[Any]) -> list[Message]:
    """The messages of a chat with this conversation. Raises `RequestRefused`."""
    messages: list[Message] = []
    for item in items:
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind in _OUTPUTS:
            messages.append({"role": "tool", "content": item.get("output")})
        elif kind in _CALLS or kind == "reasoning":
            if kind == "reasoning" and item.get("encrypted_content"):
                raise invalid("Encrypted content is not supported.", "input")
            _add_to_turn(messages, {"reasoning" if kind == "reasoning" else "tool_calls": item})
        elif kind != "message" and isinstance(item, dict) and "role" not in item:
            raise invalid(f"Unsupported input item type: {kind}", "input")
        elif isinstance(item, dict) and item.get("role") == "assistant":
            _add_to_turn(messages, {"content": item.get("content")})
        else:
            messages.append(item)
    return messages


def _add_to_turn(messages: list[Message], part: Message) -> None:
    """Add a part of the assistant's turn to its last message, or begin one.

    A message has any number of calls, but one text and one reasoning.
    """
    last = messages[-1] if messages else {}
    is_taken = "tool_calls" not in part and not last.keys().isdisjoint(part)
    if last.get("role") == "assistant" and not is_taken:
        last |= part
    else:
        messages.append({"role": "assistant", **part})


def check_tools(tools: object) -> None:
    """Refuse custom tools with a grammar, as vLLM does. Raises `RequestRefused`."""
    for tool in tools if isinstance(tools, list) else ():
        form = tool.get("format") if isinstance(tool, dict) else None
        if isinstance(form, dict) and form.get("type") == "grammar":
            raise invalid(
                "Custom tools with a grammar format are not supported; only free-form text custom "
                "tools are accepted.",
                "tools",
            )


_SHOWN: Mapping[str, tuple[str, ...]] = {
    "function": (
        "name", "parameters", "strict", "type", "allowed_callers", "async", "defer_loading",
        "description", "output_schema",
    ),
    "custom": (
        "name", "type", "allowed_callers", "async", "defer_loading", "description", "format",
    ),
    "namespace": ("description", "name", "tools", "type"),
}  # fmt: skip
_SHOWN_IN_NAMESPACE = (
    "name", "type", "allowed_callers", "async", "defer_loading", "description", "output_schema",
    "parameters", "strict",
)  # fmt: skip


def shown_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools as an answer repeats them. Those that vLLM shows to no model stay as they came."""
    return [_shown(tool, _SHOWN.get(tool.get("type", ""), tuple(tool))) for tool in tools]


def _shown(tool: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    shown = {name: tool.get(name) for name in names}
    if tool.get("type") == "namespace":
        shown["tools"] = [_shown(inner, _SHOWN_IN_NAMESPACE) for inner in tool["tools"]]
    return shown

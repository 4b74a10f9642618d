"""Check the tools of a request: their kinds, and the bytes of the schemas that become a grammar.

vLLM shows the model functions, custom tools and the functions of a namespace, which the client
runs, and leaves all other tools out. It acts on some of those if it has a tool server: it searches,
runs code, or opens addresses. These, and kinds that no release here knows, are refused.

The engine compiles a grammar only from the functions that a call is forced to, and from strict
ones. Nothing but the body limits the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from paceline.runtime.gateway.http.errors import Refusal, invalid, shown
from paceline.runtime.gateway.requests.field_checks import MAX_SCHEMA_BYTES, Check, described

FIELD = "tools"

CHAT_TOOLS = ("function",)
RESPONSES_TOOLS = (
    # the client runs them
    "function", "custom", "namespace", "local_shell", "shell", "apply_patch", "tool_search",
    "computer", "computer_use_preview",
    # OpenAI runs them; agents declare them to every server, and no engine here shows the model them
    "web_search", "web_search_2025_08_26", "image_generation",
)  # fmt: skip
_NAMESPACE_TOOLS = ("function", "custom")

_RUN_BY_SERVER: Mapping[str, str] = {
    "mcp": "makes the server open addresses",
    "code_interpreter": "makes the server run code",
    "container": "makes the server run code",
    "web_search_preview": "makes the server open addresses",
    "web_search_preview_2025_03_11": "makes the server open addresses",
    "file_search": "searches files that OpenAI stores",
}


def tool_list(kinds: Sequence[str]) -> Check:
    """The entry of a table of fields; `check_tools` makes the check, which needs other fields."""
    return described(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": list(kinds)}},
            },
            "description": "The parameters of strict functions and of those that tool_choice "
            f"forces, which the engine compiles, have at most {MAX_SCHEMA_BYTES} bytes together.",
        }
    )


def check_tools(request: Mapping[str, Any], kinds: Sequence[str], *, has_level: bool) -> None:
    """Raise `Refusal` (400), which names the tool and the field, unless all tools are allowed.

    `kinds` are those of the route; a tool without a type is of the first one. With `has_level`, as
    in a chat, the engine reads a function from the `function` of its tool or choice; without, it
    ignores that field.
    """
    tools = request.get(FIELD)
    if tools is None:
        return
    if not isinstance(tools, list):
        raise invalid(f"{FIELD} must be a list of tools; got {shown(tools)}.", FIELD)
    _check_kinds(tools, kinds, FIELD)
    functions = list(_functions(tools, has_level))
    compiled = list(_compiled(functions, request.get("tool_choice"), has_level))
    num_bytes = sum(function.num_bytes for function in compiled)
    if num_bytes > MAX_SCHEMA_BYTES:
        largest = max(compiled, key=lambda function: function.num_bytes)
        raise invalid(
            f"The engine compiles the parameters of {len(compiled)} of the tools to a grammar, and "
            f"they have {num_bytes} bytes; at most {MAX_SCHEMA_BYTES} are allowed. The largest are "
            f"{largest.where}.parameters ({largest.label}), with {largest.num_bytes} bytes. "
            "Shorten them, or leave out strict and send tool_choice auto: then none is compiled.",
            f"{largest.where}.parameters",
        )


class _Function(NamedTuple):
    """One function that the model is shown."""

    where: str
    """Path of the object that has its name and parameters."""
    name: str
    flat_name: str
    """The name by which the model knows it: vLLM puts the namespace before it."""
    is_strict: bool
    parameters: object

    @property
    def num_bytes(self) -> int:
        return 0 if self.parameters is None else len(msgspec.json.encode(self.parameters))

    @property
    def label(self) -> str:
        return repr(self.name) if len(self.name) <= 100 else f"a name of {len(self.name)}"


def _check_kinds(tools: Sequence[Any], kinds: Sequence[str], where: str) -> None:
    for index, tool in enumerate(tools):
        path = f"{where}[{index}]"
        if not isinstance(tool, dict):
            raise invalid(f"{path} must be an object; got {shown(tool)}.", path)
        kind = tool.get("type", kinds[0])
        if not isinstance(kind, str) or kind not in kinds:
            raise _refused_kind(kind, kinds, path)
        if kind == "namespace":
            inner = tool.get("tools")
            if not isinstance(inner, list):
                raise invalid(
                    f"{path}.tools must be a list of tools; got {shown(inner)}.", f"{path}.tools"
                )
            _check_kinds(inner, _NAMESPACE_TOOLS, f"{path}.tools")


def _refused_kind(kind: object, kinds: Sequence[str], path: str) -> Refusal:
    effect = _RUN_BY_SERVER.get(kind) if isinstance(kind, str) else None
    reason = f" It {effect}." if effect else ""
    return invalid(
        f"{path}.type must be {' or '.join(kinds)}; got {shown(kind)}.{reason} Leave this tool out,"
        f" or have the operator grant {FIELD} (server.granted_fields).",
        f"{path}.type",
    )


def _functions(tools: Sequence[Mapping[str, Any]], has_level: bool) -> Iterator[_Function]:
    """Functions and custom tools, also those of namespaces. Custom tools have no parameters."""
    for index, tool in enumerate(tools):
        where = f"{FIELD}[{index}]"
        if tool.get("type") == "namespace":
            space = tool.get("name")
            for inner_index, inner in enumerate(tool["tools"]):
                yield _function(inner, f"{where}.tools[{inner_index}]", f"{space}__")
        elif has_level and isinstance(tool.get("function"), dict):
            yield _function(tool["function"], f"{where}.function", "")
        else:
            yield _function(tool, where, "")


def _function(function: Mapping[str, Any], where: str, prefix: str) -> _Function:
    name, strict = function.get("name"), function.get("strict")
    name = name if isinstance(name, str) else ""
    if strict is not None and not isinstance(strict, bool):  # vLLM reads 1 and "yes" as true
        path = f"{where}.strict"
        raise invalid(f"{path} must be true, false or null; got {shown(strict)}.", path)
    return _Function(where, name, prefix + name, bool(strict), function.get("parameters"))


def _compiled(
    functions: Sequence[_Function], choice: object, has_level: bool
) -> Iterator[_Function]:
    """The functions whose parameters the engine compiles with this `tool_choice`."""
    if choice == "none":
        return
    forced = _forced_name(choice, has_level)
    for function in functions:
        if forced is not None:
            is_compiled = forced in (function.name, function.flat_name)
        else:
            is_compiled = function.is_strict or choice == "required"
        if is_compiled:
            yield function


def _forced_name(choice: object, has_level: bool) -> str | None:
    """The function that a `tool_choice` names; None where it is a word, or is of another type, such
    as a list of allowed tools, which vLLM does not compile."""
    if not isinstance(choice, dict) or choice.get("type", "function") != "function":
        return None
    inner = choice.get("function")
    name = (inner if has_level and isinstance(inner, dict) else choice).get("name")
    return name if isinstance(name, str) else None

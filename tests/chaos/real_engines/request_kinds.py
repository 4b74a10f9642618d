"""The kinds of requests that the load on real engines consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES = "/v1/responses"
TOP_K = 5
"""Of sampled requests: few enough that a lost token makes a later one improbable."""


class Check(StrEnum):
    """How the answers of a kind are judged."""

    GREEDY = "greedy"
    """They equal the reference, apart from near-ties."""
    GRAMMAR = "grammar"
    """The same, where `RequestKind.grammar` allows only some tokens."""
    SAMPLED = "sampled"
    """Every token is among the `TOP_K` most probable ones."""


@dataclass(frozen=True, slots=True)
class RequestKind:
    """One kind of request."""

    name: str
    path: str
    fields: dict[str, Any]
    check: Check = Check.GREEDY
    is_eligible: bool = True
    """Whether the gateway must complete the request. Others may end with a visible error."""
    same_as: str = ""
    """The kind whose answers are the same and have token ids; empty for this one."""
    grammar: str = ""
    """Regular expression of the answers; empty where any text is allowed."""
    is_slow: bool = False
    """Whether its clients read nothing for some seconds."""

    @property
    def has_ids(self) -> bool:
        return bool(self.fields.get("return_token_ids"))

    @property
    def is_stream(self) -> bool:
        return bool(self.fields.get("stream"))

    @property
    def reference(self) -> str:
        """The kind whose answers are the reference."""
        return self.same_as or self.name

    @property
    def has_own_reference(self) -> bool:
        return self.check is not Check.SAMPLED and not self.same_as


_USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
_TEXT: dict[str, Any] = {"temperature": 0, **_USAGE}
_IDS: dict[str, Any] = {**_TEXT, "return_token_ids": True}
_COLOURS = ("red", "green", "blue", "white")
_NUM_COLOURS = 60
"""An answer of some hundred tokens with an end: a small model would write strings without end."""
_SCHEMA = {
    "type": "object",
    "properties": {
        "colours": {
            "type": "array",
            "items": {"enum": list(_COLOURS)},
            "minItems": _NUM_COLOURS,
            "maxItems": _NUM_COLOURS,
        }
    },
    "required": ["colours"],
}
_COLOUR = f'"({"|".join(_COLOURS)})"'
_TOOL = {"type": "function", "function": {"name": "paint", "parameters": _SCHEMA}}
_LONG_CHUNKS: dict[str, Any] = {
    **_IDS,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    "speculation": {"max_draft_length": 0},
    "ignore_eos": True,
}
"""One token in each chunk of some 300 bytes, so that the buffers on the way to a client that does
not read are filled early."""

FAST_KINDS = (
    RequestKind("chat", CHAT, _IDS),
    RequestKind("long completion", COMPLETIONS, {**_IDS, "ignore_eos": True}),
    RequestKind("chat, text only", CHAT, _TEXT, same_as="chat"),
    RequestKind(
        "chat, sampled",
        CHAT,
        {**_IDS, "temperature": 0.8, "top_k": TOP_K, "seed": 7},
        check=Check.SAMPLED,
    ),
    RequestKind(
        "completion in one piece",
        COMPLETIONS,
        {"temperature": 0, "return_token_ids": True, "ignore_eos": True},
    ),
    RequestKind(
        "responses", RESPONSES, {"temperature": 0, "stream": True},
        is_eligible=False, same_as="chat",
    ),
    # The bundled model calls no tools: it answers as without them.
    RequestKind("tools", CHAT, {**_IDS, "tools": [_TOOL]}, is_eligible=False, same_as="chat"),
    RequestKind(
        "JSON schema",
        CHAT,
        {
            **_IDS,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "colours", "schema": _SCHEMA},
            },
        },
        check=Check.GRAMMAR,
        grammar=rf'\{{"colours":\[{_COLOUR}(,{_COLOUR}){{{_NUM_COLOURS - 1}}}\]\}}',
        is_eligible=False,
    ),
    RequestKind(
        "chat with logprobs", CHAT, {**_TEXT, "logprobs": True}, is_eligible=False, same_as="chat",
    ),
)  # fmt: skip
SLOW_KINDS = (
    RequestKind("chat, read slowly", CHAT, _LONG_CHUNKS, is_slow=True),
    RequestKind(
        "sampled chat, read slowly",
        CHAT,
        {**_LONG_CHUNKS, "temperature": 0.8, "top_k": TOP_K, "seed": 7},
        check=Check.SAMPLED,
        is_slow=True,
    ),
)


def body_of(kind: RequestKind, model: str, text: str, max_tokens: int) -> dict[str, Any]:
    """Return the body of a request of this kind with this prompt."""
    body: dict[str, Any] = {"model": model, **kind.fields}
    if kind.path == RESPONSES:
        return {**body, "input": text, "max_output_tokens": max_tokens}
    body["max_tokens"] = max_tokens
    if kind.path == CHAT:
        return {**body, "messages": [{"role": "user", "content": text}]}
    return {**body, "prompt": text}

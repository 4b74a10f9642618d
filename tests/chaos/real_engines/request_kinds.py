"""The kinds of requests that the load on real engines consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True, slots=True)
class RequestKind:
    """One kind of request."""

    name: str
    path: str
    fields: dict[str, Any]
    is_greedy: bool = True
    is_eligible: bool = True
    """Whether the gateway must complete the request. Others may end with a visible error."""


_GREEDY: dict[str, Any] = {"temperature": 0}
_STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
KINDS = (
    RequestKind("chat", CHAT, {**_GREEDY, **_STREAM, "return_token_ids": True}),
    RequestKind(
        "long completion",
        COMPLETIONS,
        {**_GREEDY, **_STREAM, "return_token_ids": True, "ignore_eos": True},
    ),
    RequestKind("chat, text only", CHAT, {**_GREEDY, **_STREAM}),
    RequestKind(
        "chat, seeded", CHAT, {"temperature": 0.8, "seed": 7, **_STREAM}, is_greedy=False,
    ),
    RequestKind("completion in one piece", COMPLETIONS, {**_GREEDY, "return_token_ids": True}),
    RequestKind(
        "chat with logprobs", CHAT, {**_GREEDY, **_STREAM, "logprobs": True}, is_eligible=False,
    ),
)  # fmt: skip


def body_of(kind: RequestKind, model: str, text: str, max_tokens: int) -> dict[str, Any]:
    """Return the body of a request of this kind with this prompt."""
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens, **kind.fields}
    if kind.path == CHAT:
        return {**body, "messages": [{"role": "user", "content": text}]}
    return {**body, "prompt": text}

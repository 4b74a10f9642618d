"""Ask the engine for the usage of a stream whose client did not ask for it.

    "stream_options": {"include_usage": true}

The server then sends one more event before the end, which the gateway reads and removes. With vLLM
the event before it has no `system_fingerprint` then, with llama.cpp no `timings`. Servers send the
usage of other answers, and of streams of the responses route, unasked. Streams whose token ids are
recorded need no usage.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS
from paceline.runtime.gateway.requests.validation import CheckedRequest

FIELD = "stream_options"
_DIALECTS = frozenset({"vllm", "sglang", "llamacpp"})
"""Servers whose streams are known to differ by this event alone, but for these extensions."""


def shows_usage(request: CheckedRequest) -> bool:
    """Whether the client of this stream asked for the usage."""
    options = request.parsed.get(FIELD) or {}
    return request.route in (CHAT, COMPLETIONS) and bool(options.get("include_usage"))


def usage_fields(request: CheckedRequest, dialect: str) -> Mapping[str, object]:
    """The field that asks a server of this dialect for the usage; empty where the client asked, or
    where asking is not needed or not possible. Where it is not empty, the usage is to be removed.

    `continuous_usage_stats` has no effect in vLLM without `include_usage`, so it is switched off.
    """
    if not request.is_stream or request.route not in (CHAT, COMPLETIONS):
        return {}
    if dialect not in _DIALECTS or shows_usage(request):
        return {}
    options = request.parsed.get(FIELD) or {}
    return {FIELD: {**options, "include_usage": True, "continuous_usage_stats": False}}
